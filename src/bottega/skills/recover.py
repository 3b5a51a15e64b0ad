"""Recovery: whatever a damaged database still gives, row by row, into a new library. The damaged file is kept.

Tables are read by row number from both sides of a break, so one bad page costs the rows on it and no others.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bottega.core.errors import LibraryError
from bottega.skills.store import FILE, Store

_ROW_TABLES = {
    "changes": "version, at, kind, note",
    "cards": "row, name, state, valid_from, valid_to, hash, signature, body",
    "trials": "row, version, skill, key, body",
    "uses": "row, version, episode, body",
}
_KEY_TABLES = {
    "merges": ("version, name, into_name", 3),
    "attempts": ("proof, job, verdict, at", 4),
    "tallies": ("skill, family, device, retrieved, selected, compared, uplift_sum, uplift_squares", 8),
}


@dataclass
class Recovered:
    kept_as: Path
    """Where the damaged file is now."""
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    """Rows that could not be read, where their number is known."""


def recover(folder: Path) -> Recovered:
    """Move the damaged database aside and put a new one in its place."""
    path = folder / FILE
    if not path.exists():
        raise LibraryError(f"{folder}: no library to recover there")
    aside = folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}.db"
    fresh_folder = folder / f".recovering-{time.time_ns():x}"
    report = Recovered(aside)
    fresh = Store(fresh_folder)
    try:
        with closing(_damaged(path)) as damaged:
            _copy(damaged, fresh, report)
    finally:
        fresh.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        fresh.close()
    for suffix in ("", "-wal", "-shm"):
        old = folder / f"{FILE}{suffix}"
        if old.exists():
            old.rename(aside.with_name(aside.name + suffix))
    (fresh_folder / FILE).rename(path)
    for left in fresh_folder.iterdir():
        left.unlink()
    fresh_folder.rmdir()
    return report


def _damaged(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.execute("PRAGMA cell_size_check = 1")
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _copy(damaged: sqlite3.Connection, fresh: Store, report: Recovered) -> None:
    connection = fresh.connection
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in _ROW_TABLES.items():
        rows, lost = _rows_by_number(damaged, table, columns)
        report.saved[table], report.lost[table] = _put(connection, table, columns, rows), lost
    for table, (columns, _) in _KEY_TABLES.items():
        report.saved[table] = _put(connection, table, columns, _rows_in_order(damaged, table, columns))
    _mend(connection)
    connection.execute("COMMIT")


def _rows_by_number(damaged: sqlite3.Connection, table: str, columns: str) -> tuple[list[tuple[Any, ...]], int]:
    """From the first row on until a break, then past it in growing steps, until the last row that can be found."""
    found: list[tuple[Any, ...]] = []
    last = _largest(damaged, table)
    start, step, lost = 0, 1, 0
    while start <= last:
        try:
            for row in damaged.execute(f"SELECT rowid, {columns} FROM {table} WHERE rowid >= ? ORDER BY rowid", (start,)):
                found.append(tuple(row[1:]))
                start, step = int(row[0]) + 1, 1
            break
        except sqlite3.Error:
            single = _one(damaged, table, columns, start)
            if single is not None:
                found.append(single)
            else:
                lost += step
            start += step
            step = 1 if single is not None else min(step * 2, 64)
    return found, lost


def _one(damaged: sqlite3.Connection, table: str, columns: str, number: int) -> tuple[Any, ...] | None:
    try:
        row = damaged.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,)).fetchone()
    except sqlite3.Error:
        return None
    return tuple(row) if row is not None else None


def _largest(damaged: sqlite3.Connection, table: str) -> int:
    try:
        return int(damaged.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0)
    except (sqlite3.Error, TypeError):
        return 0 if not _exists(damaged, table) else 1_000_000


def _exists(damaged: sqlite3.Connection, table: str) -> bool:
    try:
        return damaged.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None
    except sqlite3.Error:
        return False


def _rows_in_order(damaged: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    try:
        for row in damaged.execute(f"SELECT {columns} FROM {table}"):
            yield tuple(row)
    except sqlite3.Error:
        return


def _put(connection: sqlite3.Connection, table: str, columns: str, rows: Any) -> int:
    marks = ", ".join("?" * (columns.count(",") + 1))
    saved = 0
    for row in rows:
        try:
            saved += connection.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row).rowcount
        except sqlite3.Error:
            continue
    return saved


def _mend(connection: sqlite3.Connection) -> None:
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
