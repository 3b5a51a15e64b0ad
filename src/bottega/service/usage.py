"""Seconds of judging that each token has used in the last hour, in memory and in a small SQLite file: neither a restart nor a `kill -9` gives
them back. What runs is written down every few seconds while it runs; a process that is killed loses at most that much of the count.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.core.steady_clock import SteadyClock
from bottega.service.limits import TokenLimits

LOG = logging.getLogger(__name__)
HOUR = 3600.0
WRITE_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS judged (key TEXT PRIMARY KEY, token TEXT NOT NULL, ended REAL NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS judged_by_end ON judged (ended);
"""


@dataclass(frozen=True, eq=False)
class _Run:
    token: str
    key: str = field(default_factory=lambda: secrets.token_hex(12))
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


class SecondsUsed:
    """Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self._clock = SteadyClock()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._open = True
        self._running: set[_Run] = set()
        self._ended: defaultdict[str, deque[tuple[float, float]]] = defaultdict(deque)
        """By token: when something ended and what it took, the oldest first."""
        self._sums: defaultdict[str, float] = defaultdict(float)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
            path.chmod(0o600)
            self._db.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {_SCHEMA}")
            sql = "SELECT token, ended, seconds FROM judged WHERE ended > ? ORDER BY ended"
            for token, ended, seconds in self._db.execute(sql, (self._clock.now() - HOUR,)):
                self._add(token, min(ended, self._clock.now()), seconds)  # the clock may have been set back
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"{path}: what tokens have used cannot be kept there: {error}; give another --folder") from None
        self._writer = threading.Thread(target=self._write_now_and_then, name="usage", daemon=True)
        self._writer.start()

    @contextmanager
    def counting(self, token: str) -> Iterator[None]:
        """What passes inside is counted for this token, also while it lasts."""
        run = _Run(token)
        with self._lock:
            self._running.add(run)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(run)
                self._add(token, self._clock.now(), run.seconds)
                self._write({run})

    def seconds(self, token: str) -> float:
        """That were judged for it in the last hour, what runs now included."""
        with self._lock:
            ended, begin = self._ended[token], self._clock.now() - HOUR
            while ended and ended[0][0] < begin:
                self._sums[token] -= ended.popleft()[1]
            return self._sums[token] + sum(run.seconds for run in self._running if run.token == token)

    def used_up(self, token: str, limits: TokenLimits) -> str:
        """Why it may have nothing judged now, in a sentence; empty where it may."""
        seconds = self.seconds(token)
        if seconds < limits.seconds_per_hour:
            return ""
        return f"this token has {limits.seconds_per_hour:g} s of judging an hour, and {seconds:.0f} s were used in the last one"

    def close(self) -> None:
        self._stop.set()
        self._writer.join()
        with self._lock:
            self._write(self._running)
            self._open = False
            self._db.close()

    def _add(self, token: str, ended: float, seconds: float) -> None:
        self._ended[token].append((ended, seconds))
        self._sums[token] += seconds

    def _write_now_and_then(self) -> None:
        while not self._stop.wait(WRITE_SECONDS):
            with self._lock:
                self._write(self._running)

    def _write(self, runs: set[_Run]) -> None:
        """With the lock held. What a full disk does not take is still counted in memory."""
        now = self._clock.now()
        rows = [(run.key, run.token, now, run.seconds) for run in runs]
        try:
            if rows and self._open:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO judged VALUES (?, ?, ?, ?)", rows)
                self._db.execute("DELETE FROM judged WHERE ended < ?", (now - HOUR,))
                self._db.execute("COMMIT")
        except sqlite3.Error as error:
            LOG.warning("what tokens have used cannot be written down: %s", error)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
