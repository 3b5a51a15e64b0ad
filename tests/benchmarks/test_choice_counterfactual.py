"""The same task is answered in another way with another card, and as by the rule without one; cards that do not hold are not offered."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from choice_card_rows import (
    CHECKED,
    HERE,
    NONE,
    RIGHT,
    WRONG,
    Known,
    Offer,
    around,
    chat,
    held_out_cases,
    known,
    library_of,
    retrieved,
    selecting,
    training_cases,
)
from choice_cards import ChoiceCard, answer_with
from choice_counterfactual import contrasts
from choice_places import places_of
from choice_tasks import SweepTask, built
from module_task import module_task

from bottega.compiler.choice_places import ChoicePlace
from bottega.core.skill import NOTHING_MORE, Conditions
from bottega.core.task import Task
from bottega.skills.conditions import unmet
from bottega.skills.validation import admit_data

SOURCE = module_task(
    "torch.softmax(self.linear(x), dim=-1)", "torch.randn(4096, 512)", init="self.linear = nn.Linear(512, 256)"
)


@pytest.fixture(scope="module")
def task() -> SweepTask:
    made = built(Task(SOURCE, "linear_softmax"), "matmul", "float32", "chain", 2, ("linear", "softmax"), "synth:1/1", 10)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def one(task: SweepTask) -> Known:
    tried = [{"place": change.place, "label": change.label, "ms": 1.0} for change in task.variants]
    winner = next([change.place, change.label] for change in task.variants if change.place.startswith("linear"))
    facts = {"name": "n", "family": "matmul", "dtype": "float32", "structure": "chain", "operators": ["linear"]}
    return known(task, {**facts, "task": task.id, "variants": tried, "winner": [winner], "gain": 1.2, "answer": "text"})


def test_sizes_are_read_from_calls_and_launches(task: SweepTask) -> None:
    places = {place.function: place.sizes for place in places_of(task).values()}
    assert places["linear"] == {"rows": 4096, "columns": 256, "depth": 512, "batch": 1}
    assert places["rows"] == {"rows": 4096, "columns": 256}


def test_ranges_have_the_size() -> None:
    chance = random.Random(0)
    for size in (1, 2, 3, 64, 100, 4097):
        for _ in range(50):
            low, high = around(size, chance, 2)
            assert low <= size <= high


def test_a_card_that_holds_changes_the_answer_and_others_do_not(one: Known) -> None:
    (card,) = one.right
    followed = answer_with(one.task, one.places, [card], HERE)
    assert followed != one.task.answer and card.choice in followed
    others = [
        replace(card, device="NVIDIA L4"), replace(card, dtypes=("bfloat16",)), replace(card, functions=("matmul",)),
        replace(card, ranges={**card.ranges, "columns": (512, 1023)}),
    ]  # fmt: skip
    assert all(answer_with(one.task, one.places, [other], HERE) == one.task.answer for other in others)
    assert answer_with(one.task, one.places, [others[0]], "NVIDIA L4") == followed


def test_training_rows_answer_what_their_cards_ask_for(one: Known) -> None:
    rows = {case.kind: chat(one, case) for case in training_cases(one)}
    texts = {kind: row["messages"][-1]["content"] for kind, row in rows.items() if row}
    assert texts.keys() == rows.keys()
    cards = [RIGHT, "another card", "a third card"]
    assert len({texts[kind] for kind in (NONE, *cards)}) == 4, "counterfactual pairs: every card has an answer of its own"
    assert texts["two cards"] != texts[NONE] and texts["right card there"] != texts[NONE]
    shown = {kind: row["messages"][1]["content"] for kind, row in rows.items() if row}
    assert all("NVIDIA" in text for text in shown.values()) and "Skills:" not in shown[NONE]
    assert "hardware: NVIDIA H200." in shown[RIGHT] and "NVIDIA H200" not in shown["right card there"]


def test_typed_conditions_are_told_in_the_words_that_the_model_was_taught(one: Known) -> None:
    (card,) = one.right
    skill = card.skill()
    without = replace(skill, conditions=Conditions(*[NOTHING_MORE] * 5))
    assert without.stated == skill.stated == tuple(skill.conditions.items())


def test_wrong_advice_differs_from_the_right_card_in_its_choice_alone(one: Known) -> None:
    cases = {case.kind: case for case in held_out_cases(one, (), Offer(checked=one.right))}
    (right,), (wrong,) = (cases[kind].cards for kind in (RIGHT, WRONG))
    assert replace(wrong, choice=right.choice) == right and wrong.choice != right.choice
    assert not unmet(wrong.applies_to, one.workload) and (wrong.functions[0], wrong.choice) in {
        (one.places[place].function, label) for place, label in one.choices
    }
    assert cases[CHECKED].cards == (right,)


def test_only_cards_that_hold_are_offered_and_the_selector_is_taught_the_fastest(one: Known) -> None:
    (card,) = one.right
    cards = library_of([one])
    offer = retrieved([one], cards)[one.task.id]
    assert {found.name for found in offer.unchecked} == cards.keys() and len(cards) == 2
    assert offer.checked == (card,), "the other one is for another device"
    other = next(label for place, label in one.choices if one.places[place].function in card.functions and label != card.choice)
    times = [{**tried, "ms": 1.0 if tried["label"] == other else 1.5} for tried in one.row["variants"]]
    best, fast = replace(card, choice=other), replace(one, row={**one.row, "rule_ms": 2.0, "variants": times})
    assert fast.gain(best) == 2.0
    assert selecting(fast, [card, best])["messages"][-1]["content"].startswith(f"{best.name}: ")
    slow = replace(fast, row={**fast.row, "rule_ms": 0.5})
    assert selecting(slow, [card, best])["messages"][-1]["content"] == "none"


def test_cards_of_every_kind_of_place_are_taken_by_a_library() -> None:
    for function, sizes, choice in (
        ("linear", {"columns": 64, "depth": 64}, "own=True, tile=(128, 64, 64), stages=4"), ("max_pool2d", {"columns": 64}, "own=False"),
        ("elements", {"elements": 4096}, "block=512, warps=2"), ("rows along another axis", {"columns": 16}, "rows_of=512, warps=1"),
        ("row", {"columns": 4096}, "warps=8"), ("sweep", {"columns": 9000}, "block=2048, warps=4"), ("other", {"columns": 9}, "warps=16"),
    ):  # fmt: skip
        place = ChoicePlace(function, function, sizes)
        card = ChoiceCard(
            HERE, (function,), ("float32",), {name: (size, size) for name, size in sizes.items()}, choice, ("softmax",)
        )
        skill = card.skill()
        assert card.holds(place, "float32", HERE) and admit_data(skill.to_json()) == skill
        assert all(part.split("=")[-1] in skill.technique for part in choice.split(", ") if "(" not in choice)


def test_ways_are_compared_on_the_tasks_that_have_both_and_wrong_answers_count_as_the_rule_s() -> None:
    def row(**ms: float | None) -> dict[str, Any]:
        times = {way.replace("_", " "): {"ms": value, "outcome": ""} for way, value in {"rule": 1.0, **ms}.items()}
        return {"dtype": "float32", "times": times}

    lines = list(contrasts([row(no_card=1.0, right_card=0.5), row(no_card=1.0, right_card=None), row(no_card=1.0)]))
    assert any(line.startswith("| right card over no card | 2 | 1.414 ") for line in lines) and len(lines) == 3
