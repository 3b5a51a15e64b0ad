"""What a judge keeps up between verdicts: opened tasks, and spare worker processes for the next candidates.

On a GPU both hold device memory, so they are closed when another process waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from bottega.core.errors import JudgeError, SandboxError
from bottega.core.task import Task
from bottega.judge.cancellation import Cancellation
from bottega.judge.machine import Machine, start_machine
from bottega.judge.memory_admission import MemoryAdmission
from bottega.judge.memory_ledger import LedgerClaim, MemoryLedger
from bottega.judge.memory_need import CONTEXT_BYTES
from bottega.judge.memory_rules import AGEING_SECONDS
from bottega.judge.session import Session, session_key
from bottega.judge.settings import Settings
from bottega.judge.worker_process import WorkerProcess

SPARE_SESSIONS = 4
"""Tasks that stay open beside those being judged."""
HELD_SECONDS = 2.0
"""A task whose fitness was checked stays open this long: its first candidate mostly follows at once, and opening it again takes longer."""
POLL_SECONDS = 0.2
"""How often a judge with something idle on a GPU checks whether another process waits for memory there."""


class SessionPool:
    """Every method may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        workers: int,
        require_sandbox: bool,
        warn: Callable[[str], None],
        while_waiting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.settings = settings
        self.workers = workers
        self.require_sandbox = require_sandbox
        self.idle: list[Session] = []
        self.spares: deque[tuple[WorkerProcess, LedgerClaim | None]] = deque()
        self.closed = False
        self.admission: MemoryAdmission | None = None
        if settings.device != "cpu":
            self.admission = MemoryAdmission(
                MemoryLedger(settings.device), self.free_memory, lambda: self.closed, warn, while_waiting
            )
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._in_use = 0
        """Sessions of verdicts under way."""
        self._refills: set[threading.Thread] = set()
        self._polling = False
        """Whether a thread checks for others that wait for memory."""

    def machine(self) -> Machine:
        """The fork server and its settings, started at the first use."""
        with self._lock:
            if self.closed:
                raise JudgeError("this judge was closed")
            if self._machine is None:
                self._machine = start_machine(self.settings, self.require_sandbox)
            return self._machine

    def is_open(self, task: Task) -> bool:
        """Whether an idle session of this task holds memory of the device."""
        with self._lock:
            return self.admission is not None and any(session.task.source == task.source for session in self.idle)

    def checkout(
        self, task: Task, settings: Settings, cancellation: Cancellation, fresh: bool = False, alone: bool = False
    ) -> Session:
        """An idle session for this task, or a new one; surplus sessions are closed, least recently used first."""
        key = session_key(task, settings)
        machine = self.machine()
        with self._lock:
            self._in_use += 1
            for session in self.idle:
                if session.key == key and not fresh:
                    self.idle.remove(session)
                    return session
            surplus = max(0, len(self.idle) + self._in_use - self.workers - SPARE_SESSIONS)
            evicted = sorted(self.idle, key=lambda s: s.last_used)[:surplus]
            self.idle = [session for session in self.idle if session not in evicted]
        if evicted:  # nobody waits for processes that end
            threading.Thread(target=_close_all, args=(evicted,), daemon=True).start()
        try:
            return Session(machine, task, settings, cancellation, self.admission, alone, self._start_ahead)
        except BaseException:
            with self._lock:
                self._in_use -= 1
            raise

    def give_back(self, session: Session, more: bool = False) -> None:
        """Keep it for the next candidate, unless another process waits for its memory. `more`: candidates of the same task follow at once, and
        then only one that has waited for a while counts."""
        wanted = self.admission is not None and (
            (session.admitted is not None and session.admitted.alone) or self.admission.wanted(AGEING_SECONDS if more else 0.0)
        )
        with self._lock:
            if not self.closed and not wanted and session.usable:
                self._in_use -= 1
                self.idle.append(session)
                self._start_polling()
                return
        self.drop(session)

    def hold(self, session: Session) -> None:
        """Keep it for `HELD_SECONDS`, whoever waits for its memory."""
        session.held_until = time.monotonic() + HELD_SECONDS
        with self._lock:
            if not self.closed and session.usable:
                self._in_use -= 1
                self.idle.append(session)
                self._start_polling()
                return
        self.drop(session)

    def drop(self, session: Session) -> None:
        with self._lock:
            self._in_use -= 1
        session.close()

    def worker(self) -> WorkerProcess:
        """A fresh process for one candidate; the next one is started while this one works."""
        machine = self.machine()
        with self._lock:
            worker, claim = self.spares.popleft() if self.spares else (None, None)
            thread = threading.Thread(target=self._refill, daemon=True)
            self._refills.add(thread)
            thread.start()  # inside the lock: close() joins whatever is listed
        if claim is not None:
            claim.release()  # from here on it is part of what the task has claimed
        if worker is not None and worker.sandbox.wait(0) is not None:
            worker.stop()
            worker = None
        return worker or WorkerProcess.start(machine)

    def _start_ahead(self) -> None:
        """Start a worker for the first candidate of a task that is being opened: that task's claim has room for it."""
        with self._lock:
            if self.spares or self.closed or self.settings.device == "cpu":
                return
            thread = threading.Thread(target=self._refill, args=(True,), daemon=True)
            self._refills.add(thread)
            thread.start()

    def free_memory(self, size: int) -> None:
        """Free so many bytes of GPU memory, as far as idle processes hold them: spare workers first, then sessions, least recently used first."""
        if size <= 0:
            return
        spares: list[tuple[WorkerProcess, LedgerClaim | None]] = []
        sessions: list[Session] = []
        with self._lock:
            while self.spares and size > 0:
                spares.append(self.spares.popleft())
                size -= CONTEXT_BYTES
            for session in sorted(self.idle, key=lambda one: one.last_used):
                if size > 0 and session.held_until < time.monotonic():
                    sessions.append(session)
                    self.idle.remove(session)
                    size -= session.admitted.claim.size if session.admitted is not None else 0
        for worker, claim in spares:
            worker.stop()
            if claim is not None:
                claim.release()
        _close_all(sessions)

    def close(self) -> None:
        """End every process. Safe to call twice, and while others still judge: their calls fail."""
        with self._lock:
            self.closed = True
            idle, self.idle = self.idle, []
            spares = list(self.spares)
            self.spares.clear()
            refills = list(self._refills)
        for thread in refills:
            thread.join(10)
        for session in idle:
            session.close(at_once=True)
        for spare, claim in [*spares, *self.spares]:
            spare.stop(at_once=True)
            if claim is not None:
                claim.release()
        if self._machine is not None:
            self._machine.server.close()

    def _refill(self, covered: bool = False) -> None:
        """Start a spare worker. On a GPU it has a context, so it is started only where nobody waits for that memory, unless a claim covers it."""
        worker, claim, refused = None, None, False
        try:
            if self.admission is not None and not covered:
                claim = self.admission.ledger.try_claim(CONTEXT_BYTES, "a process for the next candidate")
                refused = claim is None
            if not refused:
                worker = WorkerProcess.start(self.machine())
        except (SandboxError, JudgeError):
            worker = None  # the next verdict meets the same error and reports it, unless the judge is closed
        with self._lock:
            self._refills.discard(threading.current_thread())
            if worker is not None and not self.closed and len(self.spares) < self.workers:
                self.spares.append((worker, claim))
                self._start_polling()
                return
        if worker is not None:
            worker.stop()
        if claim is not None:
            claim.release()

    def _start_polling(self) -> None:
        """While something idle is on a GPU, a thread checks whether another process waits for its memory. Called with the lock held."""
        if self.admission is not None and not self._polling:
            self._polling = True
            threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        assert self.admission is not None
        while True:
            time.sleep(POLL_SECONDS)
            with self._lock:
                self._polling = not self.closed and bool(self.idle or self.spares)
                if not self._polling:
                    return
            self.free_memory(self.admission.ledger.missing())


def _close_all(sessions: list[Session]) -> None:
    for session in sessions:
        session.close()
