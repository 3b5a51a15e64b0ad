"""A library that grows while the writer learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import choice_grown
import pytest
from choice_card_rows import HERE
from choice_folds import FOLDS, of_fold, rows_file
from choice_grown import with_card
from choice_growth import Tried, admitted, half_of, proposals
from choice_learning import Chooser
from choice_model import small_chooser
from choice_scores import all_scores, settled
from choice_sweep import rows_of
from figure import write_rows

from bottega.compiler.choice_places import ChoicePlace

pytest.importorskip("transformers")
FAST, SLOW = "warps=8", "warps=1"


def writer(number: int, gain: float = 0.3) -> dict[str, Any]:
    places = [
        None,
        *({"change": "row", "function": "row", "sizes": {"columns": 64}, "choice": choice} for choice in (FAST, SLOW)),
    ]
    facts = {"structure": "chain", "dtype": "float32", "gain": 1.3, "gains": [0.0, gain, -0.4], "places": places}
    return {
        **facts,
        "task": f"{number}",
        "prompt": f"task {number}\nFastest:",
        "options": ["rule", f"row: {FAST}", f"row: {SLOW}"],
    }


def test_the_writer_sees_the_card_and_what_it_advises() -> None:
    row = with_card(writer(0), "row: warps=8 (1.20x)", [1])
    assert row["prompt"] == "task 0\nCard: row: warps=8 (1.20x)\nFastest:"
    assert row["options"] == ["rule", f"row: {FAST}, advised", f"row: {SLOW}"]


def tried(number: int, gain: float, columns: int = 64, choice: str = FAST) -> Tried:
    return Tried(f"{number}", ChoicePlace("row", "row", {"columns": columns}), "float32", choice, gain)


def test_a_card_is_admitted_by_tasks_that_did_not_propose_it() -> None:
    helps = [tried(number, 0.2 + number / 1000) for number in range(40)]
    assert {(one.card.choice, one.proposed_by) for one in admitted(helps, HERE)} == {(FAST, 0), (FAST, 1)}
    one_half = [tried(number, 0.2 if half_of(f"{number}") else -0.2) for number in range(40)]
    assert [one.proposed_by for one in proposals(one_half, HERE)] == [1]
    assert not admitted(one_half, HERE)
    few = [one for one in helps if half_of(one.task) == 0][:8] + [one for one in helps if half_of(one.task) == 1][:3]
    assert not admitted(few, HERE), "three tasks bear nothing out"


def test_a_statement_speaks_of_the_sizes_where_it_was_won() -> None:
    both = [tried(number, 0.2 if number % 2 else -0.3, 64 if number % 2 else 4096) for number in range(60)]
    assert {tuple(one.card.ranges.items()) for one in proposals(both, HERE)} == {(("columns", (64, 127)),)}


@pytest.mark.rotates
def test_a_library_grows_from_what_the_writer_drew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chooser, "open", small_chooser)
    for fold in range(FOLDS):
        write_rows(rows_file(tmp_path, fold), of_fold([writer(number, 0.3 + number / 1000) for number in range(48)], fold))
    out = tmp_path / "grown"
    choice_grown.learn(tmp_path, out, 0, "grown,frozen,empty", "cpu", "small", 3, 1, 1, 1e-3, 0, 0)
    cards = {arm: rows_of(out / f"cards-{arm}-0-0.jsonl") for arm in ("grown", "frozen", "empty")}
    assert cards["grown"] and not cards["empty"]
    assert all(FAST in one["card"] and one["surely"] > 1 and len(one["siblings"]) >= 4 for one in cards["grown"])
    found = settled(all_scores(out), "greedy")
    assert all(gain > 0.29 for gain in found["grown, cards followed"].values())
    assert set(found["empty, cards followed"].values()) == {0.0}
    assert set(found["grown, then the empty library"]) == set(found["grown"])
    choice_grown.report(tmp_path, out)
