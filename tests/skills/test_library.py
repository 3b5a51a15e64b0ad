"""The library: every change is one version, any version can be read again, and neither a crowd nor a kill loses what was committed."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, card, in_children

from bottega.core.errors import CardError, LibraryError
from bottega.core.skill import Provenance, Skill, SkillState
from bottega.skills import library as library_module
from bottega.skills.library import Library, content_hash
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.skills.store import FILE

Say = Callable[[Any], None]
ANY = Filter(EVERY_STATE)


def test_a_card_comes_back_as_it_was_given(library: Library) -> None:
    given = card(provenance=Provenance("summary", "run 3", "t" * 16, 1.5), reason="new", failures=("One thing.", "Another."))
    assert library.add(given) == given == library.get("tile_rows") == library.cards()[0]
    assert "tile_rows" in library and "other" not in library and len(library) == 1


def test_a_card_that_is_not_fit_does_not_come_in(library: Library) -> None:
    for bad in (
        card(intent="short"),
        card("Bad Name"),
        card(technique="For all rows of any length, use torch.compile on them."),
    ):
        with pytest.raises(CardError):
            library.add(bad)
        with pytest.raises(CardError):
            library.add_many([bad])
    assert library.version == 0


def test_a_taken_name_is_an_error_that_says_what_to_do(library: Library) -> None:
    library.add(card())
    with pytest.raises(LibraryError, match=r"there already \(proposed\); nothing was changed.*--revise"):
        library.add(card(effect="Another effect."))
    library.move("tile_rows", SkillState.RETIRED, "old")
    with pytest.raises(LibraryError, match=r"there already \(retired\)"):
        library.add(card())
    assert library.version == 2


def test_an_unknown_name_is_an_error_that_knows_a_near_one(library: Library) -> None:
    library.add(card())
    with pytest.raises(LibraryError, match="did you mean tile_rows"):
        library.get("tile_row")
    for name in ("", "' OR 1=1 --", "a\0b", "%", "плитка", "x" * 200_000):
        with pytest.raises(LibraryError, match="no card is named") as unknown:
            library.get(name)
        assert len(str(unknown.value)) < 700
        assert name not in library
    for change in (lambda: library.move("nobody", SkillState.RETIRED, ""), lambda: library.revise("nobody", card())):
        with pytest.raises(LibraryError):
            change()
    assert library.version == 1


def test_every_change_is_a_version_and_the_history_tells_them(library: Library) -> None:
    library.add(card())
    library.move("tile_rows", SkillState.ADMITTED, "a gain")
    library.revise("tile_rows", card(effect="Two thirds of the bytes are read."))
    library.move("tile_rows", SkillState.RETIRED, "no\x1b[1m use\n" + "x" * 500)
    entries = library.history("tile_rows")
    assert [(e.valid_from, e.valid_to, e.skill.version, e.skill.state.value) for e in entries] == [
        (1, 2, 1, "proposed"),
        (2, 3, 1, "admitted"),
        (3, 4, 2, "proposed"),
        (4, None, 2, "retired"),
    ]
    assert (entries[1].skill.reason, entries[2].skill.reason) == ("a gain", "revised")
    assert entries[3].skill.reason == ("no [1m use " + "x" * 500)[:400]
    assert library.counts() == {SkillState.PROPOSED: 0, SkillState.ADMITTED: 0, SkillState.RETIRED: 1}


def test_the_same_text_again_is_no_revision(library: Library) -> None:
    library.add(card())
    library.move("tile_rows", SkillState.ADMITTED, "a gain")
    again = library.revise("tile_rows", card(provenance=Provenance("elsewhere")))
    assert (again.state, again.version, library.version) == (SkillState.ADMITTED, 1, 2)


def test_a_retired_card_is_not_brought_back_by_a_new_text(library: Library) -> None:
    library.add(card())
    library.move("tile_rows", SkillState.RETIRED, "no gain")
    with pytest.raises(LibraryError, match="skills restore tile_rows"):
        library.revise("tile_rows", card(effect="Something else."))
    assert library.get("tile_rows").state is SkillState.RETIRED and library.version == 2


@pytest.mark.parametrize("at", [-1, 3, 10**30])
def test_a_version_that_never_was_is_an_error(library: Library, at: int) -> None:
    library.add(card("one"))
    library.add(card("two"))
    for read in (
        lambda: library.get("one", at),
        lambda: library.cards(at=at),
        lambda: library.search(query_from_text("tile"), at=at),
    ):
        with pytest.raises(LibraryError, match="no version"):
            read()


def test_the_first_version_is_empty(library: Library) -> None:
    assert library.cards(at=0) == [] == library.search(query_from_text("tile"), only=ANY, at=0)
    library.add(card())
    assert library.cards(at=0) == [] == library.search(query_from_text("tile"), only=ANY, at=0)
    with pytest.raises(LibraryError, match="at version 0"):
        library.get("tile_rows", 0)


def test_any_version_can_be_read_and_searched_again(tmp_path: Path) -> None:
    """A random life of a library, remembered beside it."""
    chance, now, then = random.Random(5), dict[str, Skill](), list[dict[str, Skill]]([{}])
    with Library(tmp_path) as library:
        for step in range(40):
            name = chance.choice(["alpha", "beta", "gamma", "delta"])
            old = now.get(name)
            if old is None:
                now[name] = library.add(card(name))
            elif old.state is SkillState.RETIRED or chance.random() < 0.6:
                now[name] = library.move(name, chance.choice(list(SkillState)), f"step {step}")
            else:
                now[name] = library.revise(name, card(name, effect=f"Half of the bytes, at step {step}."))
            then.append(dict(now))
            assert library.version == len(then) - 1
    with Library(tmp_path) as library:
        for version, cards in enumerate(then):
            assert {skill.name: skill for skill in library.cards(at=version)} == cards
            for state in SkillState:
                wanted = sorted(name for name, skill in cards.items() if skill.state is state)
                assert [skill.name for skill in library.cards(state, version)] == wanted
                hits = library.search(query_from_text("cache tiles"), 10, Filter((state,)), at=version)
                assert sorted(hit.skill.name for hit in hits) == wanted
                assert all(hit.skill == cards[hit.skill.name] for hit in hits)


def test_many_cards_at_once_and_what_becomes_of_taken_names(library: Library) -> None:
    library.add(card("one"))
    another = card("one", effect="Something else entirely.")
    done = library.add_many([card("one"), card("two"), another], "rename")
    assert (done.added, done.renamed, done.already_there) == (["two", "one_2"], {"one": "one_2"}, ["one"])
    assert done.names == ["one", "two", "one_2"]
    again = library.add_many([card("one"), card("two"), another], "rename")
    assert (again.added, again.renamed, again.already_there) == ([], {}, ["one", "two", "one"])
    assert again.names == ["one", "two", "one_2"]
    skipped = library.add_many([card("one", effect="A third thing."), card("three")], "skip")
    assert (skipped.skipped, skipped.added, skipped.names) == (["one"], ["three"], ["", "three"])
    assert {skill.name for skill in library.cards()} == {"one", "one_2", "two", "three"}


def test_a_renamed_card_has_a_name_that_the_door_takes(library: Library) -> None:
    long = "a" * 57 + "_" + "b" * 6
    library.add(card(long))
    for number in range(2, 13):
        library.add_many([card(long, effect=f"Effect number {number}.")])
    assert all(library.add_many([skill]).already_there for skill in library.cards()), "every one passes validation again"
    assert len(library) == 12


@pytest.mark.parametrize("way", ["rename", "skip"])
def test_a_large_addition_keeps_what_was_committed_before_a_fault(
    library: Library, monkeypatch: pytest.MonkeyPatch, way: Any
) -> None:
    monkeypatch.setattr(library_module, "BATCH", 3)
    with pytest.raises(CardError):
        library.add_many([*(card(f"card_{number}") for number in range(7)), card("Bad")], way)
    assert len(library) == 6 and library.version == 2


def test_where_a_taken_name_is_an_error_all_or_nothing_comes_in(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "BATCH", 3)
    library.add(card("taken"))
    with pytest.raises(LibraryError, match="nothing was changed"):
        library.add_many([*(card(f"card_{number}") for number in range(7)), card("taken", effect="Another one.")], "error")
    assert len(library) == 1
    assert library.add_many([card("taken"), card("free")], "error").added == ["free"]


def test_two_writers_with_the_same_name_are_told_apart(tmp_path: Path) -> None:
    Library(tmp_path).close()

    def write(number: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            with Library(tmp_path) as library:
                for part in range(8):
                    try:
                        library.add(card(f"card_{part}", effect=f"As {number} has it."))
                        say([part, number])
                    except LibraryError as error:
                        say("is there already" in str(error))

        return run

    said = in_children(*(write(number) for number in range(3)))
    won = [answer for answers in said for answer in answers if isinstance(answer, list)]
    assert sorted(part for part, _ in won) == list(range(8))
    assert sum(answer is True for answers in said for answer in answers) == 16
    with Library(tmp_path) as library:
        assert all(library.get(f"card_{part}").effect == f"As {number} has it." for part, number in won)


@pytest.mark.rotates
def test_writers_and_readers_at_once_see_whole_versions(tmp_path: Path) -> None:
    Library(tmp_path).close()

    def write(number: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            with Library(tmp_path) as library:
                for part in range(6):
                    library.add_many([card(f"pair_{number}_{part}_a"), card(f"pair_{number}_{part}_b")])
                    library.move(f"pair_{number}_{part}_a", SkillState.ADMITTED, "a gain")
            say("done")

        return run

    def read(say: Say) -> None:
        before = 0
        with Library(tmp_path) as library:
            for _ in range(60):
                version = library.version
                seen = {skill.name for skill in library.cards(at=version)}
                assert all(name[:-1] + "b" in seen for name in seen if name.endswith("a")), "half a transaction"
                assert version >= before
                library.search(query_from_text("cache tiles"), 5, ANY)
                before = version
        say("done")

    assert in_children(write(0), write(1), read, read) == [["done"]] * 4
    with Library(tmp_path) as library:
        assert len(library) == 24 and library.version == 24
        assert len(library.cards(SkillState.ADMITTED)) == 12


def test_a_kill_at_any_moment_loses_nothing_that_was_reported(tmp_path: Path) -> None:
    chance, reported, more = random.Random(11), set[str](), 0

    def write(turn: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            library = Library(tmp_path)
            for number in range(1000):
                say(library.add(card(f"card_{turn}_{number}")).name)
                if number % 5 == 4:
                    library.move(f"card_{turn}_{number}", SkillState.RETIRED, "old")
                    say(f"card_{turn}_{number} retired")

        return run

    for turn in range(15):
        child = Child(write(turn))
        said = [child.next() for _ in range(turn % 5)]  # from its beginning on, and later
        time.sleep(chance.uniform(0.0, 0.02))
        child.kill()
        said += child.said()
        assert not any(isinstance(line, dict) for line in said), said
        reported |= set(said)
        with Library(tmp_path) as library:
            names = {skill.name for skill in library.cards()}
            retired = {f"{skill.name} retired" for skill in library.cards(SkillState.RETIRED)}
            assert reported <= names | retired
            more += len((names | retired) - reported)
            reported |= names | retired
            assert library.version == len(names) + len(retired)
            row = library.store.row("PRAGMA integrity_check")
            assert row is not None and row[0] == "ok"
    assert len(reported) >= 3 * (1 + 2 + 3 + 4)
    assert more <= 15, "at most the one change between its commit and its report"


def test_a_card_that_was_changed_behind_the_librarys_back_is_not_served(library: Library, tmp_path: Path) -> None:
    library.add(card("one"))
    library.add(card("two"))
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("UPDATE cards SET body = replace(body, 'Half of', 'None of') WHERE name = 'one'")
        other.execute("UPDATE cards SET body = substr(body, 1, 300) WHERE name = 'two'")
    other.close()
    for read in (
        lambda: library.get("one"),
        lambda: library.get("two"),
        library.cards,
        lambda: library.history("two"),
        lambda: library.move("two", SkillState.RETIRED, "broken"),
        lambda: library.search(query_from_text("cache tiles"), only=ANY),
    ):
        with pytest.raises(LibraryError, match=r"\.recover"):
            read()


def test_what_two_cards_say_makes_their_hash_and_nothing_else() -> None:
    one = card()
    assert content_hash(one) == content_hash(
        replace(one, state=SkillState.RETIRED, version=7, reason="x", provenance=Provenance("y"))
    )
    assert len({content_hash(one), content_hash(card(effect="Another one.")), content_hash(card("other"))}) == 3
