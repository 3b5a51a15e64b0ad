"""The index is never the truth: whatever is done to it, a search answers as the database has it."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, admitted, card, in_children
from waiting import until

from bottega.core.skill import SkillState
from bottega.skills.index import SearchIndex
from bottega.skills.library import Library
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.skills.starter import starter_cards
from bottega.skills.store import FILE

Say = Callable[[Any], None]
ANY = Filter(EVERY_STATE)
QUERIES = ("softmax over long rows", "matmul tiles in registers", "transpose")


def answers(library: Library) -> list[list[tuple[str, float]]]:
    return [[(hit.skill.name, round(hit.score, 4)) for hit in library.search(query_from_text(q), 8, ANY)] for q in QUERIES]


def found(library: Library, words: str = "cache tiles", k: int = 100) -> set[str]:
    return {hit.skill.name for hit in library.search(query_from_text(words), k, ANY)}


def pointer(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "index" / "current.json").read_text())
    return read


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A library of the starter cards with its index, in three segments and with a deletion, and what it answers.

    It has two answers: words of a deleted card count until its segment is merged, so an index that was built anew scores a little
    otherwise.
    """
    folder = tmp_path_factory.mktemp("whole")
    cards = starter_cards()[:16]
    with Library(folder) as library:
        library.add_many(cards[5:])
        library.search(query_from_text("softmax"), 1, ANY)
        library.add_many(cards[:5])
        library.move(cards[7].name, SkillState.RETIRED, "to have a deletion")
        expected = answers(library)
    shutil.copy(folder / FILE, tmp_path_factory.mktemp("anew") / FILE)
    with Library(tmp_path_factory.getbasetemp() / "anew0") as library:
        anew = answers(library)
    assert all(expected)
    return folder, json.loads(json.dumps([expected, anew]))


def test_adding_does_not_touch_the_index_and_searching_brings_it_up_to_date(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        assert not (tmp_path / "index").exists()
        assert found(library) == {"one"}
        before = pointer(tmp_path)
        library.add(card("two"))
        assert pointer(tmp_path) == before
        assert found(library) == {"one", "two"}
        assert pointer(tmp_path)["generation"] == before["generation"]
        library.revise("one", card("one", technique="Something about pelicans and nothing about what stood here before."))
        assert found(library, "pelicans") == {"one"}
        library.move("two", SkillState.RETIRED, "old")
        assert {hit.skill.name for hit in library.search(query_from_text("tiles"), 5, Filter((SkillState.RETIRED,)))} == {"two"}
        assert pointer(tmp_path)["generation"] == before["generation"], "a row that is gone is taken out, not all built anew"


def test_trials_and_uses_do_not_concern_the_index(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        found(library)
        before = pointer(tmp_path)
        with library.store.change("use", "nothing about cards"):
            pass
        found(library)
        assert pointer(tmp_path) == before


def files_of(folder: Path) -> list[Path]:
    return sorted(
        path.relative_to(folder) for path in (folder / "index").rglob("*") if path.is_file() and "lock" not in path.name
    )


HARM: dict[str, Callable[[Path], Any]] = {
    "removed": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "overwritten": lambda path: path.write_bytes(random.Random(3).randbytes(path.stat().st_size)),
}


def mended(whole: tuple[Path, list[Any]], tmp_path: Path, harmed: list[tuple[Path, str]]) -> None:
    folder, expected = whole

    def one(path: Path, harm: str) -> Callable[[Say], None]:
        """In a process of its own: broken files make tantivy panic, which is loud, and might do worse."""

        def run(say: Say) -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            place = tmp_path / path.name
            shutil.copytree(folder, place)
            HARM[harm](place / path)
            with Library(place) as library:
                say(answers(library))

        return run

    for (path, harm), said in zip(harmed, in_children(*(one(*what) for what in harmed))):
        assert len(said) == 1 and said[0] in expected, (path.name, harm)


@pytest.mark.rotates
def test_harm_to_any_file_of_the_index_is_mended(whole: tuple[Path, list[Any]], tmp_path: Path) -> None:
    files, harms = files_of(whole[0]), list(HARM)
    assert len(files) >= 14
    mended(whole, tmp_path, [(path, harms[number % len(harms)]) for number, path in enumerate(files)])


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_every_harm_to_every_file_of_the_index_is_mended(whole: tuple[Path, list[Any]], tmp_path: Path, harm: str) -> None:
    mended(whole, tmp_path, [(path, harm) for path in files_of(whole[0])])


POINTERS = {
    "empty": "",
    "cut": '{"generation": "1a1d',
    "a list": "[]",
    "deep": "[" * 100_000,
    "binary": "\x00\x01\x02",
    "null": "null",
}


@pytest.mark.parametrize("text", POINTERS)
def test_a_pointer_that_is_none_is_replaced(tmp_path: Path, text: str) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        found(library)
    (tmp_path / "index" / "current.json").write_text(POINTERS[text])
    with Library(tmp_path) as library:
        assert found(library) == {"one"}
    assert pointer(tmp_path)["library"]


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 5},
        {"generation": "../.."},
        {"generation": ""},
        {"generation": "gone"},
        {"version": "1"},
        {"version": None},
        {"version": 10**9},
        {"version": True},
        {"library": "another"},
        {"format": 0},
        {"last": 3},
        {"last": "1 another_card proposed 00"},
        {"surplus": 1},
    ],
    ids=str,
)
def test_a_pointer_that_says_something_else_is_replaced(tmp_path: Path, changes: dict[str, Any]) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        found(library)
    honest = pointer(tmp_path)
    (tmp_path / "index" / "current.json").write_text(json.dumps({**honest, **changes}))
    with Library(tmp_path) as library:
        assert found(library) == {"one"}
    now = pointer(tmp_path)
    assert {**now, "generation": ""} == {**honest, "generation": ""} and (tmp_path / "index" / now["generation"]).is_dir()


def test_the_index_of_another_library_is_not_used(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with Library(tmp_path / name) as library:
            library.add(card(f"card_of_{name}"))
            found(library)
    shutil.rmtree(tmp_path / "one" / "index")
    shutil.copytree(tmp_path / "other" / "index", tmp_path / "one" / "index")
    with Library(tmp_path / "one") as library:
        assert found(library) == {"card_of_one"}


def test_a_database_put_back_from_a_copy_is_told_from_the_one_that_was_indexed(tmp_path: Path) -> None:
    """Both come to the same version with as many cards, but not with the same."""
    with Library(tmp_path) as library:
        library.add(card("first"))
    shutil.copy(tmp_path / FILE, tmp_path / "copy.db")
    with Library(tmp_path) as library:
        library.add(card("lost"))
        assert found(library) == {"first", "lost"}
    shutil.copy(tmp_path / "copy.db", tmp_path / FILE)
    with Library(tmp_path) as library:
        library.add(card("kept", technique="Something about pelicans and nothing about what stands in the other cards."))
        assert found(library) == {"first", "kept"}
        assert found(library, "pelicans") == {"kept"}


def test_where_no_index_can_be_written_one_in_memory_answers(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
    (tmp_path / "index").write_text("a file where a folder should be")
    with Library(tmp_path) as library:
        assert found(library) == {"one"}
        library.add(card("two"))
        assert found(library) == {"one", "two"}
    with pytest.raises(OSError), Library(tmp_path) as library:
        library.index.rebuild()


@pytest.mark.rotates
def test_a_full_disk_does_not_stop_a_search(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(starter_cards()[:40])
        found(library, "rows")
        library.add_many(starter_cards()[40:60])
        expected = sorted(found(library, "rows"))
    with Library(tmp_path) as library:
        library.move(expected[0], SkillState.RETIRED, "so that the index is behind")

    def look(fresh: bool) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            if fresh:
                shutil.rmtree(tmp_path / "index")
            with Library(tmp_path) as library:
                assert library.version
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
                say(sorted(found(library, "rows")))

        return run

    assert Child(look(fresh=False)).said() == [expected]
    assert Child(look(fresh=True)).said() == [expected]
    assert not [path for path in (tmp_path / "index").iterdir() if path.is_dir()], "half-built folders are taken away"
    with Library(tmp_path) as library:
        assert sorted(found(library, "rows")) == expected


def test_a_kill_while_the_index_is_written_leaves_one_that_can_be_caught_up(tmp_path: Path) -> None:
    chance, folder = random.Random(4), tmp_path / "library"

    def churn(turn: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            library = Library(folder)
            for number in range(1000):
                library.add(card(f"card_{turn}_{number}"))
                if number % 4 == 3:
                    library.move(f"card_{turn}_{number - 1}", SkillState.RETIRED, "old")
                if number % 6 == 5:
                    library.index.rebuild()
                found(library)
                (tmp_path / f"begun_{turn}").touch()

        return run

    def looked_at(say: Say) -> None:
        with Library(folder) as library:
            cards = library.cards()
            assert found(library, k=1000) == {skill.name for skill in cards}
            retired = library.search(query_from_text("cache tiles"), 1000, Filter((SkillState.RETIRED,)))
            assert {hit.skill.name for hit in retired} == {skill.name for skill in cards if skill.state is SkillState.RETIRED}
            say(len(cards))

    for turn in range(8):
        child = Child(churn(turn))
        until((tmp_path / f"begun_{turn}").exists)
        time.sleep(chance.uniform(0.03, 0.25))
        child.kill()
        assert child.said() == []
        # In a process of its own too: the index starts threads, and a process with threads is not forked safely.
        ((count,),) = in_children(looked_at)
        assert isinstance(count, int), count
    assert count > 8
    assert len([path for path in (folder / "index").iterdir() if path.is_dir()]) <= 3


@pytest.mark.rotates
def test_processes_that_bring_it_up_to_date_at_once_do_not_undo_each_other(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(card(f"first_{number}") for number in range(30))
        found(library)
    generation = pointer(tmp_path)["generation"]

    def work(number: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            with Library(tmp_path) as library:
                for part in range(8):
                    mine = library.add(admitted(f"card_{number}_{part}")).name
                    hits = library.search(query_from_text(mine), 200, ANY)
                    assert mine in {hit.skill.name for hit in hits}
            say("done")

        return run

    assert in_children(*(work(number) for number in range(4))) == [["done"]] * 4
    assert pointer(tmp_path)["generation"] == generation, "it was built anew, though it was only behind"
    with Library(tmp_path) as library:
        assert len(found(library)) == 62


@pytest.mark.rotates
def test_processes_without_an_index_at_once_all_answer(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(card(f"card_{number}") for number in range(40))

    def look(say: Say) -> None:
        with Library(tmp_path) as library:
            for _ in range(5):
                shutil.rmtree(tmp_path / "index", ignore_errors=True)
                say(len(found(library)))

    assert in_children(look, look, look) == [[40] * 5] * 3


def test_an_index_that_is_ahead_of_its_pointer_is_used_and_not_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its writer is between the two, or was killed there."""
    with Library(tmp_path) as library:
        library.add(card("one"))
        found(library)
        library.add(card("two"))
        library.move("one", SkillState.RETIRED, "old")
        generation = pointer(tmp_path)["generation"]

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SearchIndex, "_write_pointer", killed)
            found(library)
    with Library(tmp_path) as library:
        assert found(library) == {"one", "two"} and pointer(tmp_path)["generation"] == generation


def test_a_fork_and_threads_search_one_library(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(card(f"card_{number}") for number in range(20))
        assert len(found(library)) == 20
        held, done = threading.Event(), threading.Event()

        def search_on() -> None:
            with library.index._lock:
                held.set()
                done.wait(60)

        searching = threading.Thread(target=search_on)
        searching.start()
        held.wait(60)  # another thread is searching at the moment of the fork
        child = Child(lambda say: say([len(found(library)), library.add(card("of_the_child")).name, len(found(library))]))
        done.set()
        searching.join()
        assert child.said() == [[20, "of_the_child", 21]]
        assert len(found(library)) == 21
        faults: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for part in range(5):
                    library.add(card(f"thread_{number}_{part}"))
                    assert f"thread_{number}_{part}" in found(library)
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults and len(found(library)) == 41


def test_an_empty_library_is_searched_too(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        assert found(library) == set()
        library.index.rebuild()
        assert found(library) == set()
