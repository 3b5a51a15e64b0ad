"""What a server was asked and what came of it, in one SQLite file: a request that was accepted is in it before the answer goes out.

The id of a request is a hash of its content, so that asking twice is asking once. Every change of state names the state that it expects and
the attempt that it belongs to: a verdict that comes late, after a cancellation or from before a restart, changes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.service.records import Kind, Record, Request, State

MOST_CRASHES = 2
"""A request that was running as often when the server died is not tried again."""
TOOK_DOWN = (
    "the server went down twice while this was judged, so it is not tried a third time; send it again if you think it innocent"
)
PRUNED_AT_ONCE = 200
ROW_BYTES = 2048
"""Of a request beside its texts and its result, roughly."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (hash TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, token TEXT NOT NULL, kind TEXT NOT NULL, devices TEXT NOT NULL, priority INTEGER NOT NULL,
    task TEXT NOT NULL, task_name TEXT NOT NULL, candidate TEXT NOT NULL, candidate_name TEXT NOT NULL, language TEXT NOT NULL,
    settings TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0,
    device TEXT NOT NULL DEFAULT '', accepted REAL NOT NULL, started REAL, ended REAL, result TEXT, error TEXT NOT NULL DEFAULT '',
    task_id TEXT NOT NULL DEFAULT '', bytes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_state ON requests (state, accepted);
CREATE INDEX IF NOT EXISTS by_end ON requests (ended);
CREATE INDEX IF NOT EXISTS by_owner ON requests (token, kind, accepted, id);
CREATE INDEX IF NOT EXISTS by_owners_end ON requests (token, ended, bytes);
CREATE INDEX IF NOT EXISTS by_task ON requests (task);
CREATE INDEX IF NOT EXISTS by_task_id ON requests (token, task_id);
CREATE INDEX IF NOT EXISTS by_candidate ON requests (candidate);
"""


_COLUMNS = "id, token, kind, devices, priority, state, attempt, device, accepted, started, ended, result, error, "
_COLUMNS += "task_id, task_name, candidate_name"


class Store:
    """Every method may be called from any thread; each is one transaction. One process at a time has the folder."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder_lock = os.open(folder / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._folder_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._folder_lock)
            raise UsageError(
                f"{folder}: another `bottega serve` has its results here; stop it, or give another --folder"
            ) from None
        except OSError as error:
            raise UsageError(f"{folder}: results cannot be kept there: {error.strerror}; give another --folder") from None
        self.path = folder / "results.db"
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30.0)
            self.path.chmod(0o600)  # also in a folder that was there before; what SQLite puts beside it gets the same mode
            self._db.executescript("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
            self._add_bytes()
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self.path}: cannot be used: {error}; move it away to begin anew") from None

    def close(self) -> None:
        with self._lock:
            self._db.close()
            os.close(self._folder_lock)

    def accept(self, id: str, request: Request) -> tuple[Record, bool]:
        """The record of this request, and whether it is to be judged now: new, or ended without a verdict before."""
        now = time.time()
        with self._transaction() as db:
            known = self._read(db, id)
            if known is not None and known.state not in ("failed", "cancelled"):
                return known, False
            if known is not None:
                db.execute(
                    "UPDATE requests SET state = 'queued', crashes = 0, priority = ?, device = '', accepted = ?, started = NULL, "
                    "ended = NULL, error = '' WHERE id = ?", (request.priority, now, id),
                )  # fmt: skip
            else:
                (task, task_bytes), (candidate, own_bytes) = self._keep(db, request.task), self._keep(db, request.candidate)
                row = (
                    id, request.token, request.kind, json.dumps(request.devices), request.priority, task, request.task_name,
                    candidate, request.candidate_name, request.language, request.settings, "queued", now,
                    ROW_BYTES + task_bytes + own_bytes,
                )  # fmt: skip
                db.execute(
                    "INSERT INTO requests (id, token, kind, devices, priority, task, task_name, candidate, candidate_name, language, "
                    f"settings, state, accepted, bytes) VALUES ({', '.join('?' * len(row))})", row,
                )  # fmt: skip
            record = self._read(db, id)
            assert record is not None
            return record, True

    def get(self, id: str) -> Record | None:
        with self._lock:
            return self._read(self._db, id)

    def listed(self, token: str, kind: Kind, before: tuple[float, str] | None, count: int) -> list[Record]:
        """A token's own, the newest first. `before`: time of acceptance and id of the last one that was seen."""
        sql = f"SELECT {_COLUMNS} FROM requests WHERE token = ? AND kind = ? AND (accepted, id) < (?, ?) ORDER BY accepted DESC, id DESC LIMIT ?"
        with self._lock:
            rows = self._db.execute(sql, (token, kind, *(before or (float("inf"), "")), count)).fetchall()
        return [_record(row) for row in rows]

    def task_source(self, token: str, task_id: str) -> tuple[str, str] | None:
        """Text and name of a task that this token has sent before, by the task's own id."""
        sql = "SELECT task, task_name FROM requests WHERE token = ? AND task_id = ? ORDER BY ended DESC LIMIT 1"
        with self._lock:
            row = self._db.execute(sql, (token, task_id)).fetchone()
            return None if row is None else (self._text(self._db, row[0]), row[1])

    def start(self, id: str, device: str) -> tuple[Record, Request] | None:
        """Mark it as running; None where it no longer waits."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE requests SET state = 'running', attempt = attempt + 1, device = ?, started = ? WHERE id = ? AND state = 'queued'",
                (device, time.time(), id),
            ).rowcount
            if not changed:
                return None
            record = self._read(db, id)
            assert record is not None
            columns = "task, task_name, candidate, candidate_name, language, settings"
            row = db.execute(f"SELECT {columns} FROM requests WHERE id = ?", (id,)).fetchone()
            task, candidate = self._text(db, row[0]), self._text(db, row[2])
            return record, Request(
                record.token, record.kind, record.devices, task, row[1], candidate, row[3], row[4], row[5], record.priority
            )

    def finish(
        self, id: str, attempt: int, state: State, result: dict[str, Any] | None = None, error: str = "", task_id: str = ""
    ) -> bool:
        """End this attempt. False: it was ended before, and nothing has changed."""
        text = None if result is None else json.dumps(result)
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE requests SET state = ?, result = ?, error = ?, task_id = ?, ended = ?, bytes = bytes + ? "
                "WHERE id = ? AND attempt = ? AND state = 'running'",
                (state, text, error, task_id, time.time(), len(text or ""), id, attempt),
            )
            return bool(changed.rowcount)

    def back_to_queue(self, id: str, attempt: int) -> None:
        """It was running when the server was told to stop: that is not its fault."""
        with self._transaction() as db:
            values = (id, attempt)
            db.execute(
                "UPDATE requests SET state = 'queued', started = NULL WHERE id = ? AND attempt = ? AND state = 'running'",
                values,
            )

    def cancel(self, id: str, reason: str = "cancelled") -> bool:
        """Also one that runs: what its attempt finds is not kept then."""
        with self._transaction() as db:
            sql = (
                "UPDATE requests SET state = 'cancelled', ended = ?, error = ? WHERE id = ? AND state IN ('queued', 'running')"
            )
            return bool(db.execute(sql, (time.time(), reason, id)).rowcount)

    def recover(self) -> list[Record]:
        """After a start: all that waits, the oldest first. What ran when the last server died waits again, or ends as failed."""
        with self._transaction() as db:
            db.execute("UPDATE requests SET crashes = crashes + 1 WHERE state = 'running'")
            db.execute(
                "UPDATE requests SET state = 'failed', ended = ?, error = ? WHERE state = 'running' AND crashes >= ?",
                (time.time(), TOOK_DOWN, MOST_CRASHES),
            )
            db.execute("UPDATE requests SET state = 'queued', started = NULL WHERE state = 'running'")
            rows = db.execute(f"SELECT {_COLUMNS} FROM requests WHERE state = 'queued' ORDER BY accepted").fetchall()
            return [_record(row) for row in rows]

    def bytes(self) -> int:
        """Of what is kept; pages that were freed do not count."""
        with self._lock:
            page, count, free = (
                self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
            )
        return int(page * (count - free))

    def bytes_of(self) -> dict[str, int]:
        """By token, the largest first; waiting requests included."""
        with self._lock:
            rows = self._db.execute("SELECT token, SUM(bytes) FROM requests GROUP BY token ORDER BY 2 DESC").fetchall()
        return {token: int(size) for token, size in rows}

    def prune(self, keep_seconds: float, keep_bytes: int) -> int:
        """Delete results that ended longer ago, then the oldest ones of whoever has most until the rest is small enough. How many went.

        Only a token that has no less than the average loses results by size: nobody's are pushed out by another one's, not even where all that the
        other one has still waits and cannot be deleted.
        """
        gone = 0
        while deleted := self._delete_oldest(time.time() - keep_seconds):
            gone += deleted
        while self.bytes() > keep_bytes:
            sizes = self.bytes_of()
            large = [token for token, size in sizes.items() if size * len(sizes) >= sum(sizes.values())]
            deleted = next((count for token in large if (count := self._delete_oldest(float("inf"), token))), 0)
            if not deleted:
                break
            gone += deleted
        if gone:
            with self._lock:
                self._db.execute("PRAGMA incremental_vacuum").fetchall()
        return gone

    def _delete_oldest(self, until: float, token: str | None = None) -> int:
        """A batch, so that nobody waits long for the lock; a token's, or anybody's."""
        whose, values = ("", ()) if token is None else (" AND token = ?", (token,))
        with self._transaction() as db:
            sql = (
                f"SELECT id, task, candidate FROM requests WHERE ended < ?{whose} AND state IN ('done', 'failed', 'cancelled')"
            )
            rows = db.execute(f"{sql} ORDER BY ended LIMIT ?", (until, *values, PRUNED_AT_ONCE)).fetchall()
            db.executemany("DELETE FROM requests WHERE id = ?", [(row[0],) for row in rows])
            for text in {text for row in rows for text in row[1:]}:
                unused = "NOT EXISTS (SELECT 1 FROM requests WHERE task = ?1) AND NOT EXISTS (SELECT 1 FROM requests WHERE candidate = ?1)"
                db.execute(f"DELETE FROM texts WHERE hash = ?1 AND {unused}", (text,))
            return len(rows)

    def _add_bytes(self) -> None:
        """To a file that was written before sizes were counted."""
        columns = [row[1] for row in self._db.execute("PRAGMA table_info(requests)")]
        if columns and "bytes" not in columns:
            self._db.execute("ALTER TABLE requests ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0")
            self._db.execute("UPDATE requests SET bytes = ? + LENGTH(COALESCE(result, ''))", (ROW_BYTES,))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _read(self, db: sqlite3.Connection, id: str) -> Record | None:
        row = db.execute(f"SELECT {_COLUMNS} FROM requests WHERE id = ?", (id,)).fetchone()
        return None if row is None else _record(row)

    def _keep(self, db: sqlite3.Connection, text: str) -> tuple[str, int]:
        """A text under its hash, once for all requests that have it, and the bytes that this took. As bytes: a stranger's text need not be valid
        Unicode."""
        data = text.encode(errors="surrogatepass")
        hashed = hashlib.sha256(data).hexdigest()
        new = db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (hashed, data)).rowcount
        return hashed, len(data) if new else 0

    def _text(self, db: sqlite3.Connection, hashed: str) -> str:
        found: bytes = db.execute("SELECT text FROM texts WHERE hash = ?", (hashed,)).fetchone()[0]
        return found.decode(errors="surrogatepass")


def _record(row: tuple[Any, ...]) -> Record:
    values = dict(zip(_COLUMNS.split(", "), row))
    result = None if values["result"] is None else json.loads(values["result"])
    return Record(**{**values, "devices": tuple(json.loads(values["devices"])), "result": result})
