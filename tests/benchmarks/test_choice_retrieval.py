"""Ways to choose a card are scored by what was measured of its advice, with cards of the other half of the tasks alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import choice_selector
import pytest
from choice_card_rows import HERE, PROCESSORS, query_of
from choice_cards import ChoiceCard
from choice_findings import CONFIRMING, Measured
from choice_growth import Proposal, Tried
from choice_retrieval import BM25, CHECKED, NONE, ORACLE, WRONG, Measurements, cards_of, gains, half_of, read_task, table
from choice_selector import NO_CARD, SUREST, offers
from choice_tasks import SweepTask, built
from module_task import module_task

from bottega.compiler.choice_places import ChoicePlace
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.core.workload import LAST_AXIS, OTHER_AXIS
from bottega.skills.conditions import unmet

SOURCE = module_task("torch.nn.functional.max_pool1d(x, 2)", "torch.randn(64, 32, COLUMNS)")
FAST, SLOW = "block=512, warps=8", "block=256, warps=4"


@pytest.fixture(scope="module")
def made() -> SweepTask:
    task = built(
        Task(SOURCE.replace("COLUMNS", "128"), "max_pool1d"), "pooling", "float32", "single", 1, ("max_pool1d",), "x", 10
    )
    assert task is not None
    return task


@pytest.fixture
def one(made: SweepTask) -> Measurements:
    (place,) = {change.place for change in made.variants if change.place.startswith("max_pool1d")}
    tried = [{"place": place, "label": FAST, "ms": 0.5}, {"place": place, "label": SLOW, "ms": 2.0}]
    return read_task(made, {"rule_ms": 1.0, "gain": 2.0, "variants": tried})


def pool_card(choice: str, low: int, high: int, **changes: Any) -> ChoiceCard:
    card = ChoiceCard(HERE, ("max_pool1d",), ("float32",), {"columns": (low, high)}, choice, ("max_pool1d", "pooling"))
    return replace(card, **changes)


def test_the_card_whose_conditions_hold_is_chosen_and_its_variant_counts(one: Measurements) -> None:
    cards = [
        pool_card(SLOW, 1024, 4095),
        pool_card(SLOW, 1024, 2047, tags=("max_pool1d", "pooling", "cuda")),
        pool_card(FAST, 64, 255),
    ]
    (found,) = gains([one], cards)
    assert found[CHECKED] == found[ORACLE] == 2.0 and found[NONE] is None
    assert found[WRONG] == 0.5, "the other choice at the same place, with the conditions holding"
    (found,) = gains([one], cards[:2])
    assert found[CHECKED] is None and found[BM25] == 0.5, "BM25 alone offers a card for other sizes, and it is followed"


def test_advice_that_the_task_has_no_variant_for_changes_nothing(one: Measurements) -> None:
    (found,) = gains([one], [pool_card("block=2048, warps=2", 64, 255)])
    assert found[CHECKED] is None and found[BM25] is None


def test_a_card_for_another_device_is_not_offered(one: Measurements) -> None:
    (found,) = gains([one], [pool_card(FAST, 64, 255, device="NVIDIA A100")])
    assert found[CHECKED] is None and found[BM25] == 2.0
    elsewhere = replace(one.workload, device=DeviceFacts("cuda", "NVIDIA A100", *PROCESSORS["NVIDIA A100"], 0.0))
    (found,) = gains([replace(one, workload=elsewhere)], [pool_card(FAST, 64, 255, device="NVIDIA A100")])
    assert found[CHECKED] == 2.0


def test_cards_come_of_one_half_alone() -> None:
    some = [
        Measured(str(number), CONFIRMING, ChoicePlace("row", "row", {"columns": 64}), "float32", f"warps={half_of(str(number), 7) + 1}", "n",
                 (1.0, 1.5 + number / 1000), (0.98, 1.02))
        for number in range(60)
    ]  # fmt: skip
    assert {card.choice for card in cards_of(some, 7, 0, HERE)} == {"warps=1"}
    assert {card.choice for card in cards_of(some, 7, 1, HERE)} == {"warps=2"}


def test_conditions_of_a_launch_are_those_of_its_operations() -> None:
    rows = ChoiceCard(
        HERE, ("rows along another axis",), ("bfloat16",), {"columns": (2, 31)}, "rows_of=512, warps=1"
    ).applies_to
    assert (rows.kinds, rows.layouts, rows.operators, rows.devices) == (("row",), (OTHER_AXIS,), (), (HERE,))
    assert ChoiceCard(HERE, ("row",), ("float32",), {}, "warps=1").applies_to.layouts == (LAST_AXIS,)
    fused = ChoiceCard(HERE, ("structure of product", "structure of convolution"), ("float32",), {}, "own").applies_to
    assert fused.kinds == ("product", "convolution") and not fused.layouts and not fused.operators


def test_the_table_has_means_over_splits_and_counts_what_changes_nothing_as_the_rule(one: Measurements) -> None:
    (holding,), (failing,) = (gains([one], [pool_card(FAST, *ends)]) for ends in ((64, 255), (1, 2)))
    lines = list(table([[holding, failing], [holding, holding]]))
    assert any(line.startswith(f"| {CHECKED} | {2**0.75:.3f} ") and "| 75 | 75, 0 |" in line for line in lines)
    assert any(line.startswith(f"| {CHECKED} over {BM25} | {2**-0.25:.3f} ") and "0.707 to 1.000" in line for line in lines)


def test_a_finding_holds_where_it_was_won(one: Measurements) -> None:
    (place,) = one.places.values()
    low = {name: (size, size) for name, size in place.sizes.items()}
    assert not unmet(pool_card(FAST, 0, 0, ranges=low).applies_to, one.workload)


def test_a_selector_is_offered_no_card_and_bm25_s_with_what_each_is_worth(one: Measurements) -> None:
    facts = {"task": one.task.id, "name": "max_pool1d", "family": "pooling", "dtype": "float32", "structure": "single"}
    given = ((SLOW, 1024, 4095, None), (FAST, 64, 255, -0.01), (SLOW, 64, 255, 0.02))
    cards = [Proposal(pool_card(*where), 0, 0.1, (0.2,) * 5, low) for *where, low in given]
    (row,) = offers([(replace(one, row={**one.row, **facts}), query_of(one.task))], cards, 8, held_out=True)
    assert row["options"][0] == NO_CARD and row["gains"][0] == 0.0
    worth = dict(zip(row["options"], row["gains"]))
    (fast,) = (option for option in row["options"] if FAST in option)
    (slow,) = (option for option in row["options"] if SLOW in option)
    assert "1024 to 4095" not in slow, "what does not hold is not offered"
    assert worth[fast] == pytest.approx(math.log(2)) and worth[slow] == pytest.approx(math.log(0.5))
    assert row["options"][row["controls"][SUREST]] == slow and row["controls"][CHECKED] == 1
    assert fast.endswith("(1.11x), others 5: 1.22x, surely: 0.99x")
    assert row["beside"][BM25]["advises"] and row["advises"][row["options"].index(fast)] == [1] and row["advises"][0] == []


def test_no_task_is_offered_what_it_helped_to_find_or_to_bear_out(one: Measurements, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"name": "x", "family": "pooling", "dtype": "float32", "structure": "single"}
    every = []
    for number in range(48):
        task = replace(one.task, id=f"{number}")
        every.append((replace(one, task=task, row={**one.row, **facts, "task": task.id}), query_of(one.task)))
    asked: dict[str, list[set[str]]] = {}

    def proposing(tried: Sequence[Tried], *_: Any) -> list[Proposal]:
        return [Proposal(pool_card(FAST, 64, 255, effect=" ".join(sorted({each.task for each in tried}))), 0, 0.1, (), None)]

    def offering(tasks: Any, cards: Sequence[Proposal], *_: Any, held_out: bool) -> list[Any]:
        for each, _query in tasks:
            asked.setdefault(each.task.id, []).append(set(cards[0].card.effect.split()))
        return []

    monkeypatch.setattr(choice_selector, "proposals", proposing)
    monkeypatch.setattr(choice_selector, "offers", offering)
    choice_selector.fold_rows(every, 0, 8, HERE)
    assert set(asked) == {f"{number}" for number in range(48)}
    assert all(task not in found for task, (found,) in asked.items())
