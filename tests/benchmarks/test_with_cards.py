"""Kernels with cards against none: a card's step is done to the plain kernel, and intervals are over tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import with_cards

from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.validation import admit_data
from bottega.tasks.load import load_task

CARDS = Path(__file__).parents[2] / "examples/experts/cards_aarch64.jsonl"


def verdict(speed: float, outcome: Outcome = Outcome.FASTER) -> Verdict:
    return Verdict(outcome, True, {"eager": Speedup(speed, speed * 0.99, speed * 1.01)}, baseline="eager")


def test_a_card_that_is_followed_changes_the_plain_kernel() -> None:
    lines = (json.loads(line) for line in CARDS.read_text(encoding="utf-8").splitlines())
    data = next(line for line in lines if line["name"] == "cumsum_over_time_threads")
    data.pop("evidence")
    plain = (with_cards.PLAIN / "cpp/logsumexp_rows.py").read_text(encoding="utf-8")
    task = load_task("builtin:logsumexp_rows")
    assert with_cards.followed(task, plain, [], "cpp") == plain
    assert "#pragma omp parallel for" in with_cards.followed(task, plain, [admit_data(data)], "cpp")


def test_a_wrong_kernel_is_worth_the_plain_one_and_keeps_eager() -> None:
    wrong = Verdict(Outcome.INCORRECT)
    arms = {"none": verdict(2.0), "3 cards": verdict(4.0), "8 cards": wrong, "any": verdict(0.5, Outcome.SLOWER)}
    *tasks, over, kept = with_cards.rows(dict.fromkeys("abc", arms))
    assert tasks[-1] == "| `c` | 2.00 | 4.00 | incorrect | 0.50 |"
    assert over.split(" | ")[1:3] == ["1", "2.00 (2.00 to 2.00)"] and " 1.00 (" in over and " 0.25 (" in over
    assert kept == "| kept over eager, geometric mean | 2.00 | 4.00 | 1.00 | 1.00 |"


@pytest.mark.parametrize("name", ["causal_attention", "swiglu"])
def test_what_was_mined_has_no_plain_kernel_among_the_unseen(name: str) -> None:
    assert not (with_cards.PLAIN / "triton" / f"{name}.py").exists()
