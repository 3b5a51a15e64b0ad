"""One SQLite file, opened so that many processes can read and write it at once and a kill loses nothing that was committed.

Write-ahead log with a full sync at each commit; every write is one transaction that takes the lock at its start, so two writers
queue instead of failing half-way. Whatever SQLite reports becomes a `LibraryError` that says what to do.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bottega.core.errors import LibraryError
from bottega.skills.schema import DATABASE_SCHEMA, TABLES

FILE = "library.db"
PATIENCE_S = 30.0
"""How long a writer waits for the other writers before it gives up."""


class Store:
    """The connections of one process to one library file: one for each thread, made when first needed."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.folder, self.path = folder, folder / FILE
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self.writable = True
        self._prepare(create)

    def _prepare(self, create: bool) -> None:
        if not self.path.exists():
            if not create:
                raise LibraryError(f"{self.folder}: no skill library there; `bottega skills add` or `import` makes one")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LibraryError(f"{self.folder}: no library can be made there: {error.strerror}") from None
        self.writable = os.access(self.path if self.path.exists() else self.folder, os.W_OK) and os.access(self.folder, os.W_OK)
        with self._errors():
            connection = self.connection
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found == 0 and self.writable:
                self._create(connection)
                found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > DATABASE_SCHEMA:
            raise LibraryError(
                f"{self.path}: written by a newer Bottega (database schema {found}; this one knows {DATABASE_SCHEMA}); upgrade Bottega"
            )
        if found == 0:
            raise LibraryError(f"{self.path}: holds no skill library")

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise LibraryError(f"{self.path}: is a database of something else; give another --library")
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('library', ?)", (uuid.uuid4().hex,))
                connection.execute(f"PRAGMA user_version = {DATABASE_SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        made: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if made is None:
            made = self._connect()
            self._local.connection = made
        return made

    def _connect(self) -> sqlite3.Connection:
        # A folder that cannot be written holds no write-ahead log: its file is read as it stands.
        mode = "mode=rwc" if self.writable else "mode=ro&immutable=1"
        address = f"{self.path.absolute().as_uri()}?{mode}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        if self.writable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -16384")
        with self._lock:
            self._all.append(connection)
        return connection

    def rows(self, query: str, *arguments: Any) -> list[sqlite3.Row]:
        with self._errors():
            return self.connection.execute(query, arguments).fetchall()

    def row(self, query: str, *arguments: Any) -> sqlite3.Row | None:
        with self._errors():
            found: sqlite3.Row | None = self.connection.execute(query, arguments).fetchone()
            return found

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several reads of one moment."""
        with self._errors():
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def change(self, kind: str, note: str = "") -> Iterator[Change]:
        """One transaction and one library version. It commits as a whole when the block ends, or not at all."""
        if not self.writable:
            raise LibraryError(
                f"{self.path}: cannot be written here; copy the library to a folder of yours, or give another --library"
            )
        with self._errors():
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                cursor = connection.execute("INSERT INTO changes (at, kind, note) VALUES (?, ?, ?)", (at, kind, note[:400]))
                yield Change(connection, int(cursor.lastrowid or 0), at)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LibraryError(explain(error, self.path)) from error

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
        self._local = threading.local()


class Change:
    """A transaction under way: its connection, and the library version that it makes."""

    def __init__(self, connection: sqlite3.Connection, version: int, at: str) -> None:
        self.connection, self.version, self.at = connection, version, at
        self.execute: Callable[..., sqlite3.Cursor] = connection.execute


def explain(error: sqlite3.Error, path: Path) -> str:
    """What an error of SQLite's means for a library, and what to do about it."""
    name, text = getattr(error, "sqlite_errorname", "") or "", str(error)
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return (
            f"{path}: the library's database is damaged ({text}). Nothing was changed. "
            f"`bottega skills recover --library {path.parent}` saves every card that can still be read into a new library and keeps the damaged file"
        )
    if name.startswith("SQLITE_FULL") or "disk I/O error" in text:
        return f"{path}: the disk is full or failing ({text}). Nothing was changed and nothing is lost: free some space and try again"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path}: another process has held the library's lock for {PATIENCE_S:.0f} s. Nothing was changed: try again"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return f"{path}: cannot be opened or written ({text}): check the folder's permissions and that its file system allows locking"
    return f"{path}: {text}"
