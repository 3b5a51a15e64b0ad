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
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from bottega.core.errors import LibraryError
from bottega.skills.schema import DATABASE_SCHEMA, TABLES

FILE = "library.db"
PATIENCE_S = 30.0
"""How long a writer waits for the other writers before it gives up."""


class SkillStore:
    """The connections of one process to one library file: one for each thread, made when first needed.

    Neither a fork nor a file put in this one's place, as a copy is, may be met with an old connection: both are looked for.
    """

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.folder = folder.absolute()  # a thread may come to it from another working directory
        self.path = self.folder / FILE
        self.writable = True
        self._closed = False
        self._forget()
        self._prepare(create)

    def _forget(self) -> None:
        """Start without connections."""
        self._process = os.getpid()
        self._local = threading.local()
        self._all: list[tuple[threading.Thread, sqlite3.Connection]] = []
        self._lock = threading.Lock()

    def _prepare(self, create: bool) -> None:
        try:
            if not os.path.lexists(self.path):
                if not create:
                    raise LibraryError(f"{self.folder}: no skill library there; `bottega skills add` or `import` makes one")
                self.folder.mkdir(parents=True, exist_ok=True)
                with self._errors():
                    _create(self.folder)
            size = self.path.stat().st_size
            if not self.path.is_file():
                raise LibraryError(f"{self.path}: is not a file and cannot be opened as a library; give another --library")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise LibraryError(
                f"{self.folder}: no library can be opened or made there: {reason}; give another --library"
            ) from None
        self.writable = os.access(self.path, os.W_OK) and os.access(self.folder, os.W_OK)
        if size < 4096:
            # SQLite would take it for a new database and delete the log beside it, which may hold everything.
            raise LibraryError(
                f"{self.path}: has {size} bytes, less than any library: something cut it off. {to_do(self.folder)}"
            )
        with self._errors():
            self._check(self.connection)

    def _check(self, connection: sqlite3.Connection) -> None:
        """That it is a library, and one that this Bottega knows, before anything is written into it."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"meta", "changes", "cards"} <= tables:
            raise LibraryError(f"{self.path}: is a database of something else, not a skill library; give another --library")
        if found > DATABASE_SCHEMA:
            raise LibraryError(
                f"{self.path}: written by a newer Bottega (database schema {found}; this one knows {DATABASE_SCHEMA}); upgrade Bottega"
            )
        if self.writable and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        if self._process != os.getpid():
            # A connection must not cross a fork, says SQLite, not even to be closed: the parent's are left alone.
            _INHERITED.append((self._local, self._all))
            self._forget()
        if self._closed:
            raise LibraryError(f"{self.path}: this library was closed; open it again")
        made: tuple[tuple[int, ...], sqlite3.Connection] | None = getattr(self._local, "connection", None)
        if made is not None and (made[1].in_transaction or made[0] == self._identity()):
            return made[1]
        self._local.connection = (self._identity(), self._connect())
        return cast(sqlite3.Connection, self._local.connection[1])

    def _identity(self) -> tuple[int, ...]:
        """What tells this file from another in its place; one that is read without locks must not have changed at all."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise LibraryError(f"{self.path}: the library is gone: {error.strerror}") from None
        return (status.st_ino,) if self.writable else (status.st_ino, status.st_mtime_ns, status.st_size, self._log_size())

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _connect(self) -> sqlite3.Connection:
        # Where nothing can be written there are no locks either. A file without a log is then read as it stands; one with a log
        # belongs to a writer elsewhere, and is read by that writer's locks.
        mode = "mode=rw" if self.writable else "mode=ro" if self._log_size() else "mode=ro&immutable=1"
        address = f"{self.path.as_uri()}?{mode}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        if self.writable:
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -16384")
        with self._lock:
            here = threading.current_thread()
            others, self._all = self._all, [(here, connection)]
            for thread, other in others:
                if thread.is_alive() and thread is not here:
                    self._all.append((thread, other))
                else:
                    other.close()
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
            connection = self._begin()
            try:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                cursor = connection.execute("INSERT INTO changes (at, kind, note) VALUES (?, ?, ?)", (at, kind, note[:400]))
                yield Change(connection, int(cursor.lastrowid or 0), at)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _begin(self) -> sqlite3.Connection:
        """Take the lock of the file that is the library now, not of one that was put aside while we waited."""
        while True:
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            if self._local.connection[0] == self._identity():
                return connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LibraryError(explain(error, self.path)) from error
        except UnicodeDecodeError as error:  # what SQLite says about damage may quote it
            raise LibraryError(
                f"{self.path}: the library's database is damaged ({error.reason}). {to_do(self.folder)}"
            ) from None
        except UnicodeEncodeError:
            raise LibraryError(
                f"{self.path}: half of a surrogate pair is no text, so no card and no note has it; nothing was changed"
            ) from None

    @contextmanager
    def sound(self) -> Iterator[None]:
        """For reading what rows hold: a value that was never written is damage, however it shows."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            text = f"{self.path}: what the library holds is damaged ({type(error).__name__}: {str(error)[:200]})"
            raise LibraryError(f"{text}. {to_do(self.folder)}") from error

    def close(self) -> None:
        self._closed = True
        if self._process == os.getpid():
            with self._lock:
                for _, connection in self._all:
                    connection.close()
                self._all.clear()


class Change:
    """A transaction under way: its connection, and the library version that it makes."""

    def __init__(self, connection: sqlite3.Connection, version: int, at: str) -> None:
        self.connection, self.version, self.at = connection, version, at
        self.execute: Callable[..., sqlite3.Cursor] = connection.execute


_INHERITED: list[Any] = []
"""Connections of a parent process. They are neither used nor closed here, only kept from being collected."""


def _create(folder: Path) -> None:
    """A library appears whole or not at all: it is made under another name. Who comes second uses the first one's."""
    temporary = folder / f".{FILE}-{os.getpid()}-{threading.get_ident()}"
    temporary.unlink(missing_ok=True)
    try:
        # The last connection to close writes the log back and removes it.
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('library', ?)", (uuid.uuid4().hex,))
            connection.execute(f"PRAGMA user_version = {DATABASE_SCHEMA}")
            connection.execute("COMMIT")
        try:
            os.link(temporary, folder / FILE)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not (folder / FILE).exists():
                temporary.rename(folder / FILE)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)


def to_do(folder: Path) -> str:
    path = folder / FILE
    return (
        f"Put back a copy, or save what can still be read with SQLite's shell: sqlite3 '{path}' .recover | sqlite3 recovered.db"
    )


def explain(error: sqlite3.Error, path: Path) -> str:
    """What an error of SQLite's means for a library, and what to do about it."""
    name, text = getattr(error, "sqlite_errorname", "") or "", str(error)[:200]
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "decode to UTF-8" in text:
        return f"{path}: the library's database is damaged ({text}). Nothing was changed. {to_do(path.parent)}"
    if name.startswith("SQLITE_FULL") or "disk I/O error" in text:
        return f"{path}: the disk is full or failing ({text}). Nothing was changed and nothing is lost: free some space and try again"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path}: another process has held the library's lock for {PATIENCE_S:.0f} s. Nothing was changed: try again"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return f"{path}: cannot be opened or written ({text}): check the folder's permissions and that its file system allows locking"
    return f"{path}: {text}"
