"""The database file: made whole or not at all, shared by processes and threads, and clear about it when it is not what it should be."""

from __future__ import annotations

import itertools
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, card, in_children

from bottega.core.errors import BottegaError, LibraryError
from bottega.skills import store as store_module
from bottega.skills.library import Library
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.skills.schema import DATABASE_SCHEMA
from bottega.skills.store import FILE, SkillStore

NOBODY = 65534
Say = Callable[[Any], None]


def names(folder: Path) -> set[str]:
    with Library(folder, create=False) as library:
        return {skill.name for skill in library.cards()}


def as_nobody() -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def no_larger_files(size: int) -> None:
    """A disk that is full beyond this size, for this process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose way from the root is open to every user."""
    folder = tmp_path / "library"
    for part in tmp_path.parents:
        if os.access(part, os.W_OK) and str(part) not in ("/", "/tmp"):
            part.chmod(part.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    yield folder


def test_processes_that_make_a_library_at_once_make_one(tmp_path: Path) -> None:
    def come(number: int) -> Callable[[Say], None]:
        def run(say: Say) -> None:
            with Library(tmp_path / "new" / "one") as library:
                library.add(card(f"card_{number}"))
                row = library.store.row("SELECT value FROM meta WHERE key = 'library'")
                say(row[0] if row else None)

        return run

    said = in_children(*(come(number) for number in range(6)))
    assert len({answer for (answer,) in said}) == 1
    assert names(tmp_path / "new" / "one") == {f"card_{number}" for number in range(6)}
    assert not [path for path in (tmp_path / "new" / "one").iterdir() if path.name.startswith(".")]


def test_a_kill_while_a_library_is_made_leaves_nothing_or_a_library(tmp_path: Path) -> None:
    chance = random.Random(7)
    made = 0
    for number in itertools.count():
        if number >= 12 and made < number:  # some kill came early enough to tell
            break
        folder = tmp_path / str(number)
        child = Child(lambda say, folder=folder: say(Library(folder).version))  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.03))
        child.kill()
        said = child.said()
        there = (folder / FILE).exists()
        assert there or not said
        made += there
        with Library(folder) as library:
            assert library.version == 0
            library.add(card())


def test_a_path_that_is_no_place_for_a_library_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(LibraryError, match="give another --library"):
        Library(tmp_path / "file")
    with pytest.raises(LibraryError, match="no skill library there"):
        Library(tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(LibraryError):
        Library(tmp_path / ("x" * 5000))
    with pytest.raises(LibraryError):
        Library(tmp_path / "a\0b")
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    with pytest.raises(LibraryError, match="cannot be opened"):
        Library(tmp_path / "folder")
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / FILE).symlink_to(tmp_path / "nowhere")
    with pytest.raises(LibraryError):
        Library(tmp_path / "dangling")
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(
    ("made", "version", "told"),
    [
        *((False, version, "database of something else") for version in (0, 1, 99)),
        (True, DATABASE_SCHEMA + 1, "upgrade Bottega"),
    ],
)
def test_a_database_that_is_none_of_ours_is_left_as_it_is(tmp_path: Path, made: bool, version: int, told: str) -> None:
    if made:
        Library(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LibraryError, match=told):
        Library(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "no database": lambda _: b"this is no database at all\n" * 400,
    "one byte": lambda _: b"S",
    "header gone": lambda data: bytes(100) + data[100:],
    "first page gone": lambda data: random.Random(1).randbytes(4096) + data[4096:],
    "cut to a half": lambda data: data[: len(data) // 2],
    "cut to a page": lambda data: data[:4096],
    "pages overwritten": lambda data: data[:4096] + random.Random(2).randbytes(len(data) - 8192) + data[-4096:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_with_what_to_do_and_nothing_is_written(tmp_path: Path, damage: str) -> None:
    with Library(tmp_path) as library:
        library.add_many(card(f"card_{number}") for number in range(20))
    path = tmp_path / FILE
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    before = path.read_bytes()
    for attempt in (
        lambda library: library.add(card("another")),
        lambda library: library.cards(),
        lambda library: library.get("card_7"),
    ):
        with pytest.raises(LibraryError, match=r"\.recover"), Library(tmp_path) as library:
            attempt(library)
    assert path.read_bytes() == before


def test_an_empty_file_does_not_cost_the_log_beside_it(tmp_path: Path) -> None:
    child = Child(lambda say: say(Library(tmp_path).add(card("kept")).name))
    assert child.said() == ["kept"]  # it left without closing, so its card is in the log
    log = (tmp_path / f"{FILE}-wal").read_bytes()
    assert log
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(LibraryError, match="has 0 bytes"):
        Library(tmp_path)
    assert (tmp_path / f"{FILE}-wal").read_bytes() == log


def test_a_lost_log_costs_what_was_in_it_and_no_more(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("first"))
    child = Child(lambda say: say(Library(tmp_path).add(card("second")).name))
    assert child.said() == ["second"]
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"{FILE}{suffix}").unlink()
    with Library(tmp_path) as library:
        assert [skill.name for skill in library.cards()] == ["first"]
        library.add(card("third"))
    assert names(tmp_path) == {"first", "third"}


def test_a_library_without_room_says_so_and_loses_nothing(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("first"))
        pages = library.store.connection.execute("PRAGMA page_count").fetchone()[0]
        library.store.connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        version = library.version
        with pytest.raises(LibraryError, match=r"disk is full.*free some space"):
            library.add_many(card(f"card_{number}", technique="x" * 2400) for number in range(20))
        assert library.version == version
        assert [skill.name for skill in library.cards()] == ["first"]
        library.store.connection.execute("PRAGMA max_page_count = 1000000")
        library.add(card("second"))
    assert names(tmp_path) == {"first", "second"}


def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    Library(tmp_path).close()

    def fill(say: Say) -> None:
        no_larger_files((tmp_path / FILE).stat().st_size + 60_000)
        library = Library(tmp_path)
        for number in range(200):
            try:
                library.add(card(f"card_{number}"))
            except LibraryError as error:
                say(str(error))
                say(len(library))
                return
            say(f"card_{number}")

    *added, error, count = Child(fill).said()
    assert "the disk is full or failing" in error and "free some space" in error
    assert count == len(added) > 2
    assert names(tmp_path) == set(added)


def test_a_full_disk_while_a_library_is_made_leaves_none(tmp_path: Path) -> None:
    def make(say: Say) -> None:
        no_larger_files(8192)
        Library(tmp_path / "new")

    (said,) = Child(make).said()
    assert said["raised"] == "LibraryError" and "full or failing" in said["text"]
    assert not list((tmp_path / "new").iterdir())
    Library(tmp_path / "new").close()


def test_a_real_full_disk_loses_nothing_either(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with Library(disk / "library") as library:
            added = []
            with pytest.raises(LibraryError, match="full or failing"):
                for number in range(300):
                    added.append(library.add(card(f"card_{number}")).name)
            assert added
            assert names(disk / "library") == set(added)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_lock_that_is_never_given_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PATIENCE_S", 0.2)
    with Library(tmp_path) as library, sqlite3.connect(tmp_path / FILE, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LibraryError, match="another process has held the library's lock"):
            library.add(card())
        assert library.cards() == []
        other.execute("ROLLBACK")
        library.add(card())


def test_a_change_that_fails_half_way_is_none(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("first"))
        with pytest.raises(ZeroDivisionError), library.store.change("test") as change:
            change.execute("UPDATE cards SET name = 'other'")
            raise ZeroDivisionError
        with pytest.raises(LibraryError), library.store.change("test") as change:
            change.execute("INSERT INTO nowhere VALUES (1)")
        with pytest.raises(LibraryError), library.store.change("outer"), library.store.change("inner"):
            pass
        assert (library.version, library.get("first").name) == (1, "first")
        library.add(card("second"))


def test_text_that_is_none_is_refused_and_not_half_kept(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        with pytest.raises(LibraryError, match="surrogate"):
            library.add(card(), note="half \ud800")
        with pytest.raises(LibraryError, match="surrogate"):
            library.get("half \udcff")
        assert library.version == 0


def test_several_reads_see_one_moment(tmp_path: Path) -> None:
    with Library(tmp_path) as library, library.store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM cards").fetchone()[0] == 0
        assert Child(lambda say: say(Library(tmp_path).add(card()).name)).said() == ["tile_rows"]
        assert connection.execute("SELECT count(*) FROM cards").fetchone()[0] == 0
        assert len(library) == 0
    with Library(tmp_path) as library:
        assert len(library) == 1


def test_threads_share_a_library_and_leave_no_connections_behind(tmp_path: Path) -> None:
    def open_files() -> int:
        links = (Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
        return sum(os.path.islink(link) and str(tmp_path / FILE) in os.readlink(link) for link in links)

    with Library(tmp_path) as library:
        library.add(card("first"))
        before = open_files()

        def work(number: int) -> None:
            for part in range(4):
                library.add(card(f"card_{number}_{part}"))
                library.get("first")

        for turn in range(4):
            threads = [threading.Thread(target=work, args=(turn * 4 + number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(library) == 1 + 16 * 4
        last = threading.Thread(target=lambda: library.get("first"))
        last.start()
        last.join()
        assert open_files() <= before + 4 * 2 * 3
    assert open_files() == 0


def test_a_fork_gets_connections_of_its_own(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("first"))
        with library.store.change("parent") as change:
            change.execute("INSERT INTO meta VALUES ('mine', 'yes')")

            def look(say: Say) -> None:
                say(library.store.connection.in_transaction)
                say([skill.name for skill in library.cards()])
                say(library.store.row("SELECT 1 FROM meta WHERE key = 'mine'") is None)
                library.close()

            assert Child(look).said() == [False, ["first"], True]
        assert library.store.row("SELECT 1 FROM meta WHERE key = 'mine'") is not None

        def add(number: int) -> Callable[[Say], None]:
            return lambda say: say([library.add(card(f"child_{number}_{part}")).name for part in range(5)])

        said = in_children(*(add(number) for number in range(3)))
        library.add(card("last"))
        assert {skill.name for skill in library.cards()} == {"first", "last", *(name for (added,) in said for name in added)}
        assert library.store.row("PRAGMA integrity_check")[0] == "ok"  # type: ignore[index]


def test_a_closed_library_says_so(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.add(card())
    library.close()
    library.close()
    for use in (lambda: library.get("tile_rows"), lambda: library.add(card("other")), lambda: library.version):
        with pytest.raises(LibraryError, match="was closed"):
            use()
    assert names(tmp_path) == {"tile_rows"}


@pytest.mark.parametrize("name", ["a b?c#d%20&mode=ro", "läs読む", os.fsdecode(b"\xff\xfe")])
def test_a_library_lives_under_any_name_and_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with Library(Path(name)) as library:
        library.add(card("first"))
        monkeypatch.chdir("/")
        other = threading.Thread(target=lambda: library.add(card("second")))
        other.start()
        other.join()
        assert len(library.search(query_from_text("cache tiles"), only=Filter(EVERY_STATE))) == 2
    assert names(tmp_path / name) == {"first", "second"}


def test_a_library_that_was_taken_away_is_not_made_anew_by_those_who_had_it(tmp_path: Path) -> None:
    with Library(tmp_path / "library") as library:
        library.add(card())
        shutil.rmtree(tmp_path / "library")
        with pytest.raises(LibraryError, match="is gone"):
            library.add(card("other"))
    assert not (tmp_path / "library").exists()


def test_a_file_that_was_replaced_is_not_written_any_more(tmp_path: Path) -> None:
    with Library(tmp_path / "other") as other:
        other.add(card("of_the_other"))
    with Library(tmp_path / "library") as library:
        library.add(card("old"))
        for suffix in ("-wal", "-shm"):
            Path(tmp_path / "library" / f"{FILE}{suffix}").rename(tmp_path / f"aside{suffix}")
        (tmp_path / "other" / FILE).replace(tmp_path / "library" / FILE)
        library.add(card("new"))
        assert {skill.name for skill in library.cards()} == {"of_the_other", "new"}
    assert names(tmp_path / "library") == {"of_the_other", "new"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_written_is_read(open_folder: Path) -> None:
    with Library(open_folder) as library:
        library.add(card("first"))

    def read(say: Say) -> None:
        as_nobody()
        with Library(open_folder) as library:
            say([skill.name for skill in library.cards()])
            library.add(card("mine"))

    ((found, refused),) = in_children(read)
    assert found == ["first"]
    assert refused["raised"] == "LibraryError" and "cannot be written here; copy the library" in refused["text"]
    assert names(open_folder) == {"first"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_may_only_read_sees_what_a_writer_has_committed(open_folder: Path) -> None:
    with Library(open_folder) as writer:
        writer.add(card("first"))

        def read(say: Say) -> None:
            as_nobody()
            with Library(open_folder) as library:
                say([skill.name for skill in library.cards()])

        assert in_children(read) == [[["first"]]]  # from the log: the writer has not closed

    turn, told = os.pipe()

    def stay(say: Say) -> None:
        as_nobody()
        with Library(open_folder) as library:
            say(len(library))
            os.read(turn, 1)
            say(len(library))

    reader = Child(stay)
    assert reader.next() == 1
    with Library(open_folder) as writer:
        writer.add_many(card(f"card_{number}") for number in range(30))
    os.write(told, b"x")
    assert reader.said() == [31]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_where_nothing_can_be_made_is_told(open_folder: Path) -> None:
    open_folder.mkdir()

    def make(say: Say) -> None:
        as_nobody()
        Library(open_folder / "deeper")

    def make_here(say: Say) -> None:
        as_nobody()
        SkillStore(open_folder)

    for ((refused,),) in (in_children(make), in_children(make_here)):
        assert issubclass(LibraryError, BottegaError) and refused["raised"] == "LibraryError", refused
