"""Upkeep: twins are found and merged with their evidence, tired cards retire, all of it can be undone, and nothing is deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import PLAIN, admitted, card, in_children, trial
from test_uses import use

from bottega.core.errors import LibraryError, UsageError
from bottega.core.skill import SkillState
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards
from bottega.skills.upkeep import (
    LEAST_COMPARED,
    duplicates,
    duplicates_of,
    merge,
    restore,
    retire,
    retire_unhelpful,
    unhelpful_cards,
)
from bottega.skills.uses import Scheme

Say = Callable[[Any], None]


def rows(library: Library) -> dict[str, int]:
    tables = ("cards", "changes", "trials", "uses", "merges", "attempts")
    return {table: library.store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def test_near_duplicates_are_found_among_others(library: Library) -> None:
    cards = starter_cards()
    library.add_many(cards[:30])
    twin = replace(
        cards[3], name="another_name", intent=cards[3].intent + " Again.", example=cards[3].example.replace("16", "64")
    )
    assert duplicates_of(library, twin)[0].keep == cards[3].name
    library.add(twin)
    found = duplicates(library)
    assert [{twins.keep, twins.drop} for twins in found] == [{cards[3].name, "another_name"}]
    assert found[0].similarity > 0.8
    library.move("another_name", SkillState.RETIRED, "a twin")
    assert duplicates(library) == [], "retired cards are settled"


def test_the_card_to_keep_is_the_admitted_one_then_the_one_with_more_evidence(library: Library) -> None:
    library.add_many([card("alpha"), card("beta")])
    assert duplicates(library)[0].keep == "alpha"
    library.evidence.add("a", trial("beta"))
    assert duplicates(library)[0].keep == "beta"
    library.move("alpha", SkillState.ADMITTED, "a gain")
    assert duplicates(library)[0].keep == "alpha"


def test_cards_in_different_languages_are_no_duplicates(library: Library) -> None:
    library.add_many([card("alpha"), card("beta", languages=("triton",), devices=("cuda",))])
    assert duplicates(library) == []


def test_a_damaged_signature_is_told(library: Library) -> None:
    library.add_many([card("alpha"), card("beta")])
    with sqlite3.connect(library.store.path) as other:
        other.execute("UPDATE cards SET signature = x'00' WHERE name = 'beta'")
    other.close()
    with pytest.raises(LibraryError, match=r"\.recover"):
        duplicates(library)


def test_a_merged_card_retires_and_its_trials_count_for_the_other(library: Library) -> None:
    library.add_many([admitted("keep"), card("drop"), card("other")])
    for name in ("keep", "drop", "other"):
        library.evidence.add(name, trial(name))
    before, version = rows(library), library.version
    assert merge(library, "keep", ["drop", "other", "drop"], "twins").name == "keep"
    assert library.version == version + 1, "one change"
    assert (library.get("drop").state, library.get("drop").reason) == (SkillState.RETIRED, "merged into keep: twins")
    assert [one.skill for one in library.evidence.trials("keep")] == ["keep", "drop", "other"]
    assert all(count >= before[table] for table, count in rows(library).items())
    assert library.get("drop", version).state is SkillState.PROPOSED


def test_a_merged_card_can_be_brought_back_with_its_trials(library: Library) -> None:
    library.add_many([card("keep"), card("drop")])
    library.evidence.add("drop", trial("drop"))
    merge(library, "keep", ["drop"])
    assert restore(library, "drop", "they differ").state is SkillState.PROPOSED
    assert library.evidence.trials("keep") == [] and len(library.evidence.trials("drop")) == 1
    merge(library, "drop", ["keep"])
    assert library.get("keep").reason == "merged into drop"


def test_merging_in_circles_is_refused(library: Library) -> None:
    library.add_many([card("one"), card("two"), card("three")])
    merge(library, "one", ["two"])
    version = library.version
    for keep, drop in (("two", ["one"]), ("two", ["three"]), ("one", ["one"]), ("one", []), ("one", ["three", "one"])):
        with pytest.raises(UsageError):
            merge(library, keep, drop)
    with pytest.raises(LibraryError, match="no card is named"):
        merge(library, "one", ["three", "nobody"])
    assert library.version == version and library.get("three").state is SkillState.PROPOSED


def test_two_processes_that_merge_two_cards_into_each_other_leave_one(tmp_path: Path) -> None:
    for number in range(4):
        with Library(tmp_path / str(number)) as library:
            library.add_many([card("one"), card("two")])

        def run(keep: str, drop: str, folder: Path = tmp_path / str(number)) -> Callable[[Say], None]:
            def act(say: Say) -> None:
                with Library(folder) as library:
                    try:
                        merge(library, keep, [drop])
                        say("merged")
                    except UsageError:
                        say("refused")

            return act

        assert sorted(answer for (answer,) in in_children(run("one", "two"), run("two", "one"))) == ["merged", "refused"]
        with Library(tmp_path / str(number)) as library:
            assert sorted(skill.state.value for skill in library.cards()) == ["proposed", "retired"]


def test_a_card_retires_for_a_reason_and_comes_back_proposed(library: Library) -> None:
    library.add(admitted("one"))
    for reason in ("", "  \n"):
        with pytest.raises(UsageError, match="say why"):
            retire(library, "one", reason)
    assert retire(library, "one", "it breaks").reason == "it breaks"
    assert (restore(library, "one").state, library.get("one").reason) == (SkillState.PROPOSED, "brought back")
    version = library.version
    with pytest.raises(UsageError, match="is not retired"):
        restore(library, "one")
    assert library.version == version


def episodes(library: Library, name: str, gain: float, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        schemes = (Scheme((name,), (0.2 + gain,)), Scheme((), (0.2,)))
        library.uses.record(use(f"{name}/{number}", schemes=schemes, library_version=library.version))


def test_cards_that_do_not_help_retire_and_others_do_not(library: Library) -> None:
    library.add_many([admitted("useless"), admitted("harmful"), admitted("useful"), admitted("new"), card("proposed_one")])
    episodes(library, "useless", 0.0, LEAST_COMPARED)
    episodes(library, "harmful", -0.1, LEAST_COMPARED)
    episodes(library, "useful", 0.1, LEAST_COMPARED)
    episodes(library, "new", -0.1, LEAST_COMPARED - 1)
    episodes(library, "proposed_one", -0.1, LEAST_COMPARED)
    before = rows(library)
    assert [name for name, _ in unhelpful_cards(library)] == ["harmful", "useless"]
    gone = retire_unhelpful(library)
    assert gone[0] == ("harmful", f"no uplift in use: -9.5 % over {LEAST_COMPARED} episodes")
    assert {skill.name for skill in library.cards(SkillState.RETIRED)} == {"harmful", "useless"}
    assert library.get("harmful").reason == gone[0][1]
    assert unhelpful_cards(library) == []
    assert all(count >= before[table] for table, count in rows(library).items())


def test_a_card_that_was_brought_back_and_proved_anew_is_not_tired_of_its_past(library: Library) -> None:
    library.add(admitted("one"))
    episodes(library, "one", -0.1, LEAST_COMPARED)
    retire_unhelpful(library)
    restore(library, "one")
    library.move("one", SkillState.ADMITTED, "proved anew")
    assert unhelpful_cards(library) == []
    episodes(library, "one", -0.1, LEAST_COMPARED - 1, first=100)
    assert unhelpful_cards(library) == []
    library.move("one", SkillState.ADMITTED, "said again, which is no new start")
    episodes(library, "one", -0.1, 1, first=200)
    assert [name for name, _ in unhelpful_cards(library)] == ["one"]


def test_nothing_is_tired_in_an_empty_library(library: Library) -> None:
    assert unhelpful_cards(library) == [] == duplicates(library) == retire_unhelpful(library) == duplicates_of(library, PLAIN)
