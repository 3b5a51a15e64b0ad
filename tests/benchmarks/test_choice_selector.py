"""A selector is offered cards that other tasks found and bear out, with what following each was measured to be worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import choice_selector
import pytest
from choice_card_rows import HERE
from choice_cards import ChoiceCard
from choice_growth import Proposal, Tried
from choice_selector import BM25, CHECKED, NO_CARD, SUREST, Measurements, offers, read
from choice_tasks import built
from module_task import module_task

from bottega.core.task import Task
from bottega.core.workload import LAST_AXIS, OTHER_AXIS
from bottega.skills.conditions import unmet
from bottega.skills.query import Query

SOURCE = module_task("torch.nn.functional.max_pool1d(x, 2)", "torch.randn(64, 32, COLUMNS)")
FAST, SLOW = "block=512, warps=8", "block=256, warps=4"


@pytest.fixture(scope="module")
def asked() -> tuple[Measurements, Query]:
    made = built(
        Task(SOURCE.replace("COLUMNS", "128"), "max_pool1d"), "pooling", "float32", "single", 1, ("max_pool1d",), "x", 10
    )
    assert made is not None
    (place,) = {change.place for change in made.variants if change.place.startswith("max_pool1d")}
    tried = [{"place": place, "label": FAST, "ms": 0.5}, {"place": place, "label": SLOW, "ms": 2.0}]
    facts = {"name": "max_pool1d", "family": "pooling", "dtype": "float32", "structure": "single"}
    return read(made, {**facts, "task": made.id, "rule_ms": 1.0, "gain": 2.0, "variants": tried})


@pytest.fixture
def one(asked: tuple[Measurements, Query]) -> Measurements:
    return asked[0]


def pool_card(choice: str, low: int, high: int, **changes: Any) -> ChoiceCard:
    card = ChoiceCard(HERE, ("max_pool1d",), ("float32",), {"columns": (low, high)}, choice, ("max_pool1d", "pooling"))
    return replace(card, **changes)


def test_conditions_of_a_launch_are_those_of_its_operations() -> None:
    rows = ChoiceCard(
        HERE, ("rows along another axis",), ("bfloat16",), {"columns": (2, 31)}, "rows_of=512, warps=1"
    ).applies_to
    assert (rows.kinds, rows.layouts, rows.operators, rows.devices) == (("row",), (OTHER_AXIS,), (), (HERE,))
    assert ChoiceCard(HERE, ("row",), ("float32",), {}, "warps=1").applies_to.layouts == (LAST_AXIS,)
    fused = ChoiceCard(HERE, ("structure of product", "structure of convolution"), ("float32",), {}, "own").applies_to
    assert fused.kinds == ("product", "convolution") and not fused.layouts and not fused.operators


def test_a_finding_holds_where_it_was_won(one: Measurements) -> None:
    (place,) = one.places.values()
    low = {name: (size, size) for name, size in place.sizes.items()}
    assert not unmet(pool_card(FAST, 0, 0, ranges=low).applies_to, one.workload)


def test_a_selector_is_offered_no_card_and_bm25_s_with_what_each_is_worth(asked: tuple[Measurements, Query]) -> None:
    given = ((SLOW, 1024, 4095, None), (FAST, 64, 255, -0.01), (SLOW, 64, 255, 0.02))
    cards = [Proposal(pool_card(*where), 0, 0.1, (0.2,) * 5, low) for *where, low in given]
    (row,) = offers([asked], cards, 8, held_out=True)
    assert row["options"][0] == NO_CARD and row["gains"][0] == 0.0
    worth = dict(zip(row["options"], row["gains"]))
    (fast,) = (option for option in row["options"] if FAST in option)
    (slow,) = (option for option in row["options"] if SLOW in option)
    assert "1024 to 4095" not in slow, "what does not hold is not offered"
    assert worth[fast] == pytest.approx(math.log(2)) and worth[slow] == pytest.approx(math.log(0.5))
    assert row["options"][row["controls"][SUREST]] == slow and row["controls"][CHECKED] == 1
    assert fast.endswith("(1.11x), others 5: 1.22x, surely: 0.99x")
    assert row["beside"][BM25]["advises"] and row["advises"][row["options"].index(fast)] == [1] and row["advises"][0] == []


def test_no_task_is_offered_what_it_helped_to_find_or_to_bear_out(
    asked: tuple[Measurements, Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, query = asked
    every = [(replace(one, task=replace(one.task, id=f"{n}"), row={**one.row, "task": f"{n}"}), query) for n in range(48)]
    offered: dict[str, list[set[str]]] = {}

    def proposing(tried: Sequence[Tried], *_: Any) -> list[Proposal]:
        return [Proposal(pool_card(FAST, 64, 255, tags=tuple({each.task for each in tried})), 0, 0.1, (), None)]

    def offering(tasks: Any, cards: Sequence[Proposal], *_: Any, held_out: bool) -> list[Any]:
        for each, _query in tasks:
            offered.setdefault(each.task.id, []).append(set(cards[0].card.tags))
        return []

    monkeypatch.setattr(choice_selector, "proposals", proposing)
    monkeypatch.setattr(choice_selector, "offers", offering)
    choice_selector.fold_rows(every, 0, 8, HERE)
    assert set(offered) == {f"{number}" for number in range(48)}
    assert all(task not in found for task, (found,) in offered.items())
