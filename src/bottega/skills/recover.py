"""Recovery: whatever a damaged database still gives, row by row, into a new library. The damaged file is kept as it was.

Rows are read from a copy by number, around each break, and then from every page by itself, so one bad page costs the rows on it and no
others; a card that is not what its hash says is left out. When the first page is gone, a new library's stands in for it: all libraries
begin alike.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bottega.core.errors import LibraryError
from bottega.core.skill import Skill
from bottega.core.trial import Trial
from bottega.core.verdict import Verdict
from bottega.skills.library import content_hash
from bottega.skills.pages import rows_of_pages
from bottega.skills.store import FILE, PATIENCE_S, SkillStore

_ROW_TABLES = {
    "changes": "version, at, kind, note",
    "cards": "row, name, state, valid_from, valid_to, hash, signature, body",
    "trials": "row, version, skill, key, body",
    "uses": "row, version, episode, body",
}
_KEY_TABLES = {
    "merges": ("version, name, into_name", "name, version"),
    "attempts": ("proof, job, verdict, at", "proof, job"),
    "tallies": (
        "skill, family, device, retrieved, selected, compared, uplift_sum, uplift_squares",
        "skill, family, device",
    ),
}
_BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises about damage, or Python when the message quotes it."""
_LEAST_ROW = 16
"""Bytes. It bounds how far to look for rows when not even the last one's number can be read."""


@dataclass
class Recovered:
    kept_as: Path
    """Where the damaged file is now."""
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int | None] = field(default_factory=dict)
    """Rows that could not be read; nothing where some are missing and nobody knows how many."""


def recover(folder: Path) -> Recovered:
    """Move the damaged database aside and put a new one in its place."""
    path = folder / FILE
    if not path.exists():
        raise LibraryError(f"{folder}: no library to recover there")
    work = folder / f".recovering-{time.time_ns():x}"
    report = Recovered(folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09d}.db")
    try:
        with _writers_waiting(path):
            fresh = SkillStore(work / "new")
            try:
                _copy(path, work, fresh, report)
            finally:
                fresh.close()
            _swap(path, work / "new" / FILE, report.kept_as)
    except (OSError, *_BROKEN) as error:
        raise LibraryError(f"{folder}: could not be recovered: {error}. Nothing was changed: make room and try again") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return report


@contextmanager
def _writers_waiting(path: Path) -> Iterator[None]:
    """Hold the lock where there still is one: a writer that waits for it then sees that the file was replaced."""
    if path.stat().st_size < 4096:
        yield  # SQLite would take it for a new file and delete its log
        return
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE_S, isolation_level=None)
    ) as held:
        try:
            held.execute("PRAGMA wal_autocheckpoint = 0")
            held.execute("BEGIN IMMEDIATE")
        except _BROKEN as error:
            if str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY"):
                raise LibraryError(f"{path}: another process is writing; nothing was changed, try again") from None
        yield


def _swap(path: Path, fresh: Path, aside: Path) -> None:
    """The damaged file keeps its log under its new name: a log must never lie beside a database that it does not belong to."""
    shutil.copyfile(path, aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    fresh.replace(path)


def _copy(path: Path, work: Path, fresh: SkillStore, report: Recovered) -> None:
    connection = fresh.connection
    connection.execute("BEGIN IMMEDIATE")
    with closing(_damaged(path, work, work / "new" / FILE)) as damaged:
        most = sum(file.stat().st_size for file in work.glob("damaged.db*")) // _LEAST_ROW
        for table, columns in _ROW_TABLES.items():
            rows, last, known = _rows_by_number(damaged, table, columns, most)
            report.saved[table] = _put(connection, table, columns, (row for row in rows if _is_sound(table, row)))
            report.lost[table] = last if known else None
        for table, (columns, key) in _KEY_TABLES.items():
            for order in ("ASC", "DESC"):
                ordered = (row for row in _rows_in_order(damaged, table, columns, key, order) if _is_sound(table, row))
                report.saved[table] = report.saved.get(table, 0) + _put(connection, table, columns, ordered)
    # The copy has its log in it now. What no page leads to any more is found by looking at every page.
    with open(work / "damaged.db", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        for table, columns in _ROW_TABLES.items():
            there = report.lost[table]
            if table != "changes" and (there is None or there > report.saved[table]):
                strays = _strays(pages, table, columns.count(",") + 1)
                report.saved[table] += _put(connection, table, columns, strays)
            report.lost[table] = None if there is None else max(0, there - report.saved[table])
    _restore_invariants(connection)
    connection.execute("COMMIT")


def _strays(pages: mmap.mmap, table: str, columns: int) -> list[tuple[Any, ...]]:
    """Rows of a table wherever they lie; of two copies of a card the one that was closed is the later."""
    rows = [(number, *values[1:]) for number, values in rows_of_pages(pages, columns)]
    return sorted((row for row in rows if _is_sound(table, row)), key=lambda row: (row[0], row[4:5] == (None,)))


def _damaged(path: Path, work: Path, fresh: Path) -> sqlite3.Connection:
    """A copy that can be opened, though it be torn."""
    copy = work / "damaged.db"
    shutil.copyfile(path, copy)
    if Path(f"{path}-wal").exists():
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")
    if not _opens(copy):
        page = bytearray(fresh.read_bytes()[:4096])
        page[24:28] = os.urandom(4)  # it does not know how many pages follow, and must not say so
        with open(copy, "r+b") as file:
            file.write(page)
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    # A file that was cut off is opened only by those who may write its schema.
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _opens(copy: Path) -> bool:
    if copy.stat().st_size < 4096:
        return False
    try:
        with closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except _BROKEN:
        return False
    if names and not names & {*_ROW_TABLES, *_KEY_TABLES}:
        raise LibraryError(
            f"{copy.parent.parent / FILE}: is a database of something else, not a skill library; nothing was changed"
        )
    return names >= _ROW_TABLES.keys()


def _rows_by_number(
    damaged: sqlite3.Connection, table: str, columns: str, most: int
) -> tuple[list[tuple[Any, ...]], int, bool]:
    """All rows that can be read, from the first on until a break, then past it; the last one's number, and if that is known."""
    found: dict[int, tuple[Any, ...]] = {}
    last, known = _largest(damaged, table, most)
    start = 0
    while start <= last:
        try:
            for row in damaged.execute(f"SELECT rowid, {columns} FROM {table} WHERE rowid >= ? ORDER BY rowid", (start,)):
                found[int(row[0])] = tuple(row[1:])
                start = int(row[0]) + 1
            break
        except _BROKEN:
            start = _past_break(damaged, table, columns, start, last, found)
    return [found[number] for number in sorted(found)], last, known


def _past_break(
    damaged: sqlite3.Connection, table: str, columns: str, start: int, last: int, found: dict[int, tuple[Any, ...]]
) -> int:
    """Where reading can go on: in growing steps over the break, then back one by one over what the last step left out."""
    step, number = 1, start
    while number <= last and not _one(damaged, table, columns, number, found):
        step = min(step * 2, 64)
        number += step
    for missed in range(max(start, number - step), min(number, last + 1)):
        _one(damaged, table, columns, missed, found)
    return number + 1


def _one(damaged: sqlite3.Connection, table: str, columns: str, number: int, found: dict[int, tuple[Any, ...]]) -> bool:
    try:
        row = damaged.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,)).fetchone()
    except _BROKEN:
        return False
    if row is not None:
        found[number] = tuple(row)
    return row is not None


def _largest(damaged: sqlite3.Connection, table: str, most: int) -> tuple[int, bool]:
    try:
        return int(damaged.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0), True
    except (*_BROKEN, TypeError):
        return most, False


def _rows_in_order(damaged: sqlite3.Connection, table: str, columns: str, key: str, order: str) -> Iterator[tuple[Any, ...]]:
    """Rows without a number: up to the first break, from either side."""
    ordered = ", ".join(f"{column} {order}" for column in key.split(", "))
    with suppress(*_BROKEN):
        yield from (tuple(row) for row in damaged.execute(f"SELECT {columns} FROM {table} ORDER BY {ordered}"))


def _is_sound(table: str, row: tuple[Any, ...]) -> bool:
    """The row is one of this table's, and a card is the one that was written."""
    try:
        if table == "cards":
            data = json.loads(row[7])
            skill = Skill.from_json(data)
            return (skill.to_json(), content_hash(skill), skill.name, skill.state) == (data, row[5], row[1], row[2])
        if table == "trials":
            return bool(Trial.from_json(json.loads(row[4])).skill == row[2])
        if table == "attempts":
            return Verdict.from_json(json.loads(row[2])) is not None
        return table != "uses" or bool(json.loads(row[3])["episode"] == row[2])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _put(connection: sqlite3.Connection, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> int:
    marks = ", ".join("?" * (columns.count(",") + 1))
    saved = 0
    for row in rows:
        try:
            saved += connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row).rowcount
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError):
            continue
    return saved


def _restore_invariants(connection: sqlite3.Connection) -> None:
    """A card whose newer row was lost is open again at its last readable one."""
    connection.execute(
        "UPDATE cards SET valid_to = NULL WHERE row IN (SELECT row FROM cards AS c WHERE valid_to IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM cards AS n WHERE n.name = c.name AND n.valid_from >= c.valid_to) "
        "AND c.valid_from = (SELECT max(valid_from) FROM cards AS m WHERE m.name = c.name))"
    )
    last = connection.execute(
        "SELECT max(v) FROM (SELECT max(valid_from) AS v FROM cards UNION SELECT max(valid_to) FROM cards)"
    ).fetchone()
    connection.execute(
        "INSERT INTO changes (version, at, kind, note) SELECT ?, datetime('now'), 'recover', 'recovered from a damaged file' "
        "WHERE ? > (SELECT coalesce(max(version), 0) FROM changes)",
        (last[0], last[0] or 0),
    )
    connection.execute(
        "INSERT INTO changes (at, kind, note) VALUES (datetime('now'), 'recover', 'recovered from a damaged file')"
    )
