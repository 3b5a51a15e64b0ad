"""Recovery: every card that can still be read is in the new library, and the damaged file is kept as it was."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, card, trial, verdict
from test_uses import use

from bottega.core.errors import BottegaError, LibraryError
from bottega.core.skill import SkillState
from bottega.skills.exchange import export_lines
from bottega.skills.library import Library
from bottega.skills.query import query_from_text
from bottega.skills.recover import Recovered, recover
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.skills.store import FILE
from bottega.skills.upkeep import duplicates, merge, unhelpful_cards

Say = Callable[[Any], None]
COUNT = 60
CARDS = {
    f"card_{number}": card(f"card_{number}", technique=("word " * 400 + f"{number} " * 90).strip()) for number in range(COUNT)
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with Library(folder) as library:
        for skill in CARDS.values():
            library.add(skill)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "library")
    return tmp_path / "library"


def spoil(folder: Path, change: Callable[[bytearray], Any]) -> bytes:
    data = bytearray((folder / FILE).read_bytes())
    changed = change(data)
    spoilt = bytes(data if changed is None else changed)
    (folder / FILE).write_bytes(spoilt)
    return spoilt


def page(number: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        assert len(data) > (number + 1) * 4096
        data[number * 4096 : (number + 1) * 4096] = random.Random(number).randbytes(4096)

    return change


def check(folder: Path, spoilt: bytes, least: int) -> Recovered:
    report = recover(folder)
    with Library(folder, create=False) as library:
        found = {skill.name: skill for skill in library.cards()}
        assert all(CARDS[name] == skill == library.get(name) for name, skill in found.items())
        assert len(found) >= least, report
        hits = library.search(query_from_text("cache tiles"), 100, Filter(EVERY_STATE))
        assert {hit.skill.name for hit in hits} == found.keys()
        library.add(card("one_more"))
        row = library.store.row("PRAGMA integrity_check")
        assert row is not None and row[0] == "ok"
    assert report.kept_as.read_bytes() == spoilt
    assert not [path for path in folder.iterdir() if path.name.startswith(".recovering")]
    return report


@pytest.mark.parametrize("number", [0, 1, 2, 4, 12, 20, 50])
def test_one_bad_page_costs_the_rows_on_it_and_no_others(folder: Path, number: int) -> None:
    check(folder, spoil(folder, page(number)), COUNT - 4)


def test_a_lost_header_costs_nothing(folder: Path) -> None:
    report = check(folder, spoil(folder, lambda data: data.__setitem__(slice(0, 100), bytes(100))), COUNT)
    assert report.lost == {"changes": 0, "cards": 0, "trials": 0, "uses": 0}


def test_words_that_were_overwritten_are_not_taken_for_the_cards(folder: Path) -> None:
    def change(data: bytearray) -> None:
        place = data.index(b"Half of the bytes are read.", 150_000)
        data[place : place + 4] = b"None"
        other = data.index(b"Half of the bytes are read.", 300_000)
        data[other : other + 4] = b"\xff\xfe\x00\x01"

    report = check(folder, spoil(folder, change), COUNT - 2)
    assert report.saved["cards"] == COUNT - 2 and report.lost["cards"] == 2


@pytest.mark.parametrize(("share", "least"), [(0.9, 48), (0.5, 20), (0.4, 8)])
def test_what_lies_before_the_cut_is_saved(folder: Path, share: float, least: int) -> None:
    report = check(folder, spoil(folder, lambda data: data[: int(len(data) * share)]), least)
    assert report.lost["cards"] is None, "nobody knows how many there were"


def test_a_hole_in_the_middle_costs_what_was_in_it(folder: Path) -> None:
    def change(data: bytearray) -> None:
        middle = len(data) // 2 // 4096 * 4096
        data[middle : middle + 10 * 4096] = random.Random(3).randbytes(10 * 4096)

    check(folder, spoil(folder, change), COUNT - 12)


@pytest.mark.parametrize("text", [b"", b"no database " * 5000])
def test_where_nothing_is_left_an_empty_library_is_made(folder: Path, text: bytes) -> None:
    check(folder, spoil(folder, lambda _: text), 0)


def test_the_log_beside_an_empty_file_is_read(tmp_path: Path) -> None:
    names = [f"card_{number}" for number in range(5)]
    child = Child(lambda say: [say(library.add(CARDS[name]).name) for library in [Library(tmp_path)] for name in names])
    assert child.said() == names
    (tmp_path / FILE).write_bytes(b"")
    report = recover(tmp_path)
    with Library(tmp_path) as library:
        assert [skill.name for skill in library.cards()] == names
    assert Path(f"{report.kept_as}-wal").stat().st_size > 0, "the log is kept beside the file it belongs to"


def test_a_sound_library_comes_through_with_all_it_has(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many([card("one"), card("two"), card("three")])
        library.revise("one", card("one", effect="Another effect."))
        library.move("one", SkillState.ADMITTED, "a gain")
        merge(library, "one", ["two"])
        library.evidence.add("a", trial("two"))
        library.evidence.keep_attempt("proof", "job", verdict(2.0))
        library.uses.record(use())
        version = library.version

        def facts(library: Library) -> Any:
            past = [library.cards(at=at) for at in range(version + 1)]
            known = (library.evidence.trials("one"), library.evidence.attempts("proof"), library.uses.tallies())
            return past, known, library.history("one"), library.store.rows("SELECT version, kind FROM changes LIMIT 8")[:7]

        before = facts(library)
    recover(tmp_path)
    with Library(tmp_path) as library:
        assert [tuple(row) for row in facts(library)[3]] == [tuple(row) for row in before[3]]
        assert facts(library)[:3] == before[:3]
        assert library.version == version + 1, "the recovery is a change too"
        assert not library.uses.record(use())


def test_a_card_whose_last_text_is_lost_has_its_earlier_one(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        library.revise("one", card("one", effect="The text that will be lost."))
        library.add(card("two"))
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("UPDATE cards SET body = replace(body, 'will be lost', 'was spoilt') WHERE valid_from = 2")
    other.close()
    recover(tmp_path)
    with Library(tmp_path) as library:
        assert library.get("one").effect == "Half of the bytes are read." and library.get("two")
        assert library.version == 4


def test_who_has_the_library_open_goes_on_in_the_new_one(folder: Path) -> None:
    with Library(folder) as library:
        library.add(card("before"))
        recover(folder)
        library.add(card("after"))
        assert {"before", "after"} <= {skill.name for skill in library.cards()}
    with Library(folder) as library:
        assert {"before", "after"} <= {skill.name for skill in library.cards()}


def test_writers_and_a_recovery_at_once_lose_nothing(folder: Path) -> None:
    def write(say: Say) -> None:
        with Library(folder) as library:
            for number in range(40):
                say(library.add(card(f"late_{number}")).name)

    child = Child(write)
    for _ in range(3):
        recover(folder)
    said = child.said()
    assert len(said) == 40, said[-1]
    with Library(folder) as library:
        assert set(said) | CARDS.keys() == {skill.name for skill in library.cards()}
    assert len(list(folder.glob("damaged-*.db"))) == 3, "no damaged file is kept in another's place"


def test_a_database_of_something_else_is_not_recovered(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
    connection.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LibraryError, match="database of something else"):
        recover(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [FILE]


def test_without_room_nothing_is_changed(folder: Path) -> None:
    spoilt = spoil(folder, page(12))

    def run(say: Say) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        recover(folder)

    (said,) = Child(run).said()
    assert said["raised"] == "LibraryError" and "Nothing was changed" in said["text"]
    assert (folder / FILE).read_bytes() == spoilt
    assert not [path for path in folder.iterdir() if path.name.startswith((".recovering", "damaged"))]
    check(folder, spoilt, COUNT - 4)


def test_where_there_is_no_library_there_is_nothing_to_recover(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no library to recover"):
        recover(tmp_path / "nowhere")


USES: dict[str, Callable[[Library], Any]] = {
    "cards": Library.cards,
    "get": lambda library: [library.get(name) for name in CARDS],
    "history": lambda library: library.history("card_0"),
    "search": lambda library: library.search(query_from_text("cache tiles"), 100, Filter(EVERY_STATE)),
    "search the past": lambda library: library.search(query_from_text("cache tiles"), 5, at=4),
    "trials": lambda library: [library.evidence.trials(name) for name in CARDS],
    "attempts": lambda library: library.evidence.attempts("proof"),
    "tallies": lambda library: (library.uses.tallies(), library.uses.totals()),
    "duplicates": duplicates,
    "tired": unhelpful_cards,
    "export": lambda library: list(export_lines(library, library.cards())),
    "rebuild": lambda library: library.index.rebuild(),
    "merge": lambda library: merge(library, "card_1", ["card_2"]),
    "add": lambda library: library.add(card("one_more")),
}


def harmed(data: bytes, chance: random.Random) -> bytes:
    pages = len(data) // 4096
    parts = [data[number * 4096 : (number + 1) * 4096] for number in range(pages)]
    kind = chance.choice(["noise", "swap", "bits", "cut", "zero"])
    if kind == "noise":
        parts[chance.randrange(pages)] = chance.randbytes(4096)
    elif kind == "swap":
        one, other = chance.randrange(pages), chance.randrange(pages)
        parts[one], parts[other] = parts[other], parts[one]
    elif kind == "zero":
        parts[chance.randrange(pages)] = bytes(4096)
    spoilt = bytearray(b"".join(parts))
    for _ in range(chance.randrange(1, 40) if kind == "bits" else 0):
        spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    return bytes(spoilt[: chance.randrange(len(spoilt))] if kind == "cut" else spoilt)


@pytest.mark.parametrize(("seed", "count"), [(0, 4), pytest.param(1, 60, marks=pytest.mark.slow)], ids=["a few", "many"])
def test_whatever_is_done_to_the_file_only_our_own_errors_come_out_of_it(
    whole: Path, tmp_path: Path, seed: int, count: int
) -> None:
    chance = random.Random(seed)
    with Library(whole) as library:
        data = (whole / FILE).read_bytes()
        assert len(library) == COUNT
    for number in range(count):
        folder = tmp_path / str(number)
        folder.mkdir()
        spoilt = harmed(data, chance)

        def use_all(say: Say, folder: Path = folder, spoilt: bytes = spoilt) -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for use_once in USES.values():
                (folder / FILE).write_bytes(spoilt)
                with contextlib.suppress(BottegaError), Library(folder) as library:
                    use_once(library)
                for suffix in ("-wal", "-shm"):
                    Path(f"{folder / FILE}{suffix}").unlink(missing_ok=True)
            (folder / FILE).write_bytes(spoilt)
            recover(folder)
            with Library(folder) as library:
                assert all(CARDS[skill.name] == skill for skill in library.cards())
                for name in (
                    "cards",
                    "search",
                    "trials",
                    "attempts",
                    "tallies",
                    "duplicates",
                    "tired",
                    "export",
                    "rebuild",
                    "add",
                ):
                    USES[name](library)
            say("done")

        assert Child(use_all).said() == ["done"], number
