"""Kernels with cards against kernels without: steps that lose are taken back, each kernel counts, and intervals are over tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import with_cards
from with_cards import Climb

from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.validation import admit_data
from bottega.tasks.load import load_task

CARDS = Path(__file__).parents[2] / "examples/experts/cards_h200.jsonl"
PLAIN = with_cards.PLAIN / "triton/transposed_matmul.py"


def verdict(speed: float, outcome: Outcome = Outcome.FASTER) -> Verdict:
    return Verdict(outcome, True, {"eager": Speedup(speed, speed * 0.99, speed * 1.01)}, baseline="eager")


def cards(*features: str) -> list[Skill]:
    lines = [json.loads(line) for line in CARDS.read_text(encoding="utf-8").splitlines()]
    found = {line["relations"]["provides"][0]: line for line in lines}
    return [admit_data({name: value for name, value in found[feature].items() if name != "evidence"}) for feature in features]


def test_a_step_that_loses_is_taken_back_and_counts_as_a_kernel() -> None:
    asked = []

    def judge(task: Task, text: str) -> Verdict:
        asked.append(text)
        speed = 2.0 if "BLOCK_M=128" in text else 1.0
        return verdict(speed / 2 if "tf32x3" in text else speed)

    steps = cards("dot_precision=tf32x3", "tile=BLOCK_M=128", "num_warps=8")
    task, plain = load_task("builtin:transposed_matmul"), PLAIN.read_text(encoding="utf-8")
    came = with_cards.climb(task, plain, steps, "triton", 6, judge)
    assert (came.kept, came.kernels, came.verdict) == (("tile=BLOCK_M=128",), 4, verdict(2.0))
    assert ["tf32x3" in text for text in asked] == [False, True, False, False, True]
    assert with_cards.climb(task, plain, steps, "triton", 1, judge) == Climb(verdict(1.0), 1), "no more kernels than this"


def test_a_step_that_was_taken_back_is_tried_again_where_others_were_kept() -> None:
    def judge(task: Task, text: str) -> Verdict:
        large = "BLOCK_M=128" in text
        return verdict((3.0 if large else 1.0) * (1.0 if "tf32x3" not in text else 2.0 if large else 0.8))

    task, plain = load_task("builtin:transposed_matmul"), PLAIN.read_text(encoding="utf-8")
    steps = cards("dot_precision=tf32x3", "tile=BLOCK_M=128")
    came = with_cards.climb(task, plain, steps, "triton", 6, judge)
    assert came == Climb(verdict(6.0), 3, ("tile=BLOCK_M=128", "dot_precision=tf32x3"))


def test_a_step_that_has_no_place_costs_no_kernel() -> None:
    task, plain = load_task("builtin:transposed_matmul"), PLAIN.read_text(encoding="utf-8")
    twice = cards("tile=BLOCK_M=128", "tile=BLOCK_M=128")
    came = with_cards.climb(task, plain, twice, "triton", 6, lambda task, text: verdict(2.0 if "128" in text else 1.0))
    assert came.kernels == 1


def test_only_what_was_verified_and_surely_gained_is_given() -> None:
    line = json.loads(CARDS.read_text(encoding="utf-8").splitlines()[0])
    gaining, idle = [{"gain": {"low": 1.1}}], [{"gain": {"low": 0.9}}, {"gain": None}]
    assert with_cards.proved({**line, "reason": "verified by round trip", "evidence": [*idle, *gaining]})
    assert not with_cards.proved({**line, "reason": "verified by round trip", "evidence": idle})
    assert not with_cards.proved({**line, "reason": "not verified by round trip", "evidence": gaining})


def test_arms_are_compared_by_speed_and_by_what_a_user_keeps() -> None:
    slower = Climb(verdict(0.5, Outcome.SLOWER), 6)
    arms = {"plain": Climb(verdict(0.25, Outcome.SLOWER)), "cards": Climb(verdict(2.0), 4, ("a", "b")), "any": slower}
    *lines, over, kept, spent, against = with_cards.rows(dict.fromkeys("xyz", arms))
    assert lines[-1] == "| `z` | 0.25 | 2.00 | 0.50 | a, b |"
    assert "8.00 (8.00 to 8.00) | 2.00 (2.00 to 2.00)" in over
    assert kept == "| kept over eager, geometric mean | 1.00 | 2.00 | 1.00 | |"
    assert "| 4.0 | 6.0 |" in spent
    assert against.strip() == "cards over any: 4.00 (4.00 to 4.00) as fast; 2.00 (2.00 to 2.00) of what is kept"


@pytest.mark.parametrize("name", ["causal_attention", "swiglu"])
def test_what_was_mined_has_no_plain_kernel_among_the_unseen(name: str) -> None:
    assert not (with_cards.PLAIN / "triton" / f"{name}.py").exists()
