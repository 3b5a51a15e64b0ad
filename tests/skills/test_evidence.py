"""Evidence is only ever added, and what was merged into a card speaks for it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_cards import card, in_children, trial, verdict

import bottega.skills
from bottega.core.errors import LibraryError
from bottega.skills.library import Library

Say = Callable[[Any], None]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path)
    made.add_many([card("one"), card("two"), card("three")])
    return made


def test_trials_come_back_in_the_order_in_which_they_were_added(library: Library) -> None:
    given = [trial("one", reason=f"number {number}", at=f"2026-01-0{number}") for number in (3, 1, 2)]
    for number, one in enumerate(given):
        library.evidence.add(str(number), one)
    library.evidence.add("other", trial("two"))
    assert library.evidence.trials("one") == given
    assert library.evidence.trials("nobody") == []


def test_a_trial_is_dated_when_it_is_added_unless_it_has_its_date(library: Library) -> None:
    library.evidence.add("a", trial("one"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", library.evidence.trials("one")[0].at)


def test_a_trial_is_added_once_and_never_changed(library: Library) -> None:
    library.evidence.add("a", trial("one", reason="first"))
    library.evidence.add("a", trial("one", reason="second"))
    assert [one.reason for one in library.evidence.trials("one")] == ["first"]
    with library.store.change("test") as change:
        assert library.evidence.record(change, [("a", trial("one")), ("b", trial("one"))]) == 1
    assert library.evidence.has("b") and not library.evidence.has("c")


def test_a_change_that_fails_takes_its_evidence_back(library: Library) -> None:
    with pytest.raises(LibraryError), library.store.change("test") as change:
        library.evidence.record(change, [("a", trial("one"))])
        change.execute("nonsense")
    assert library.evidence.trials("one") == []


def test_the_first_verdict_of_an_attempt_is_its_verdict(library: Library) -> None:
    first = verdict(2.0, notes=("a note",), fingerprint={"device": "a cpu"})
    assert library.evidence.keep_attempt("proof", "job", first) == first
    assert library.evidence.keep_attempt("proof", "job", verdict(9.0)) == first
    assert library.evidence.keep_attempt("proof", "other", verdict(None)) == verdict(None)
    assert library.evidence.attempts("proof") == {"job": first, "other": verdict(None)}
    assert library.evidence.attempts("another") == {}


def test_processes_that_make_one_attempt_agree_on_its_verdict(library: Library, tmp_path: Path) -> None:
    def make(speedup: float) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            with Library(tmp_path) as own:
                say([own.evidence.keep_attempt("p", str(job), verdict(speedup)).speedup["eager"].point for job in range(10)])

        return run

    said = in_children(*(make(speedup) for speedup in (1.5, 2.0, 3.0)))
    assert said[0] == said[1] == said[2] and set(said[0][0]) <= {1.5, 2.0, 3.0}


def test_trials_of_merged_cards_belong_to_the_card_they_became_part_of(library: Library) -> None:
    for name in ("one", "two", "three"):
        library.evidence.add(name, trial(name))

    def merge(name: str, into: str | None) -> None:
        with library.store.change("merge") as change:
            change.execute("INSERT INTO merges VALUES (?, ?, ?)", (change.version, name, into))

    merge("three", "two")
    merge("two", "one")
    assert [one.skill for one in library.evidence.trials("one")] == ["one", "two", "three"]
    assert [one.skill for one in library.evidence.trials("two")] == ["two", "three"]
    merge("two", None)
    assert [one.skill for one in library.evidence.trials("one")] == ["one"]
    merge("two", "one")
    merge("one", "three")  # a circle, which no command makes, is no endless walk
    assert len(library.evidence.trials("one")) == 3


def test_evidence_that_cannot_be_read_is_reported(library: Library) -> None:
    library.evidence.add("a", trial("one"))
    library.evidence.add("b", trial("one", reason="sound"))
    library.evidence.keep_attempt("proof", "job", verdict(2.0))
    with sqlite3.connect(library.store.path) as other:
        other.execute("UPDATE trials SET body = substr(body, 1, 50) WHERE key = 'a'")
        other.execute("UPDATE attempts SET verdict = '{}'")
    other.close()
    for read in (lambda: library.evidence.trials("one"), lambda: library.evidence.attempts("proof")):
        with pytest.raises(LibraryError, match=r"\.recover"):
            read()


def test_no_line_of_the_library_takes_evidence_away() -> None:
    folder = Path(bottega.skills.__path__[0])
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    assert not re.search(r"\b(DELETE\s+FROM|DROP\s+TABLE|REPLACE\s+INTO)\b", text)
    assert set(re.findall(r"\bUPDATE\s+(\w+)", text)) <= {"cards", "SET"}, "only a card's open end is ever closed"
