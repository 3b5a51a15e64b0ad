"""The judge as a user holds it: one object that owns the workers and judges any number of candidates, blocking or async.

It runs no task and no candidate itself and does not import torch; it starts processes, passes descriptors between
them, and turns the referee's reports into verdicts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

from bottega.core.candidate import SOURCE_LIMIT, Candidate
from bottega.core.errors import JudgeError, SandboxError, TaskError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.decide import decide
from bottega.judge.facts import is_here
from bottega.judge.fingerprint import fingerprint
from bottega.judge.invalid import out_of_memory
from bottega.judge.machine import Machine, start_machine
from bottega.judge.session import ENDING_SECONDS, Player, Session, session_key
from bottega.judge.settings import Settings

SPARE_SESSIONS = 4
"""Tasks that stay up beside those being judged."""


class Judge:
    """Use it as a context manager, or call `close`. Every method may be called from any thread."""

    def __init__(self, device: str = "cpu", *, workers: int = 1, require_sandbox: bool = False, **defaults: Any):
        if workers < 1:
            raise UsageError("a judge needs at least one worker")
        try:
            self.settings = Settings(device=device, **defaults)
        except TypeError as error:
            raise UsageError(f"unknown option for the judge: {error}") from None
        if not is_here(device):
            raise UsageError(f"device {device}: no NVIDIA GPU is visible here; use --device cpu")
        self.workers = workers
        self.require_sandbox = require_sandbox
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._idle: list[Session] = []
        self._in_use = 0
        """Sessions that are up for a verdict under way."""
        self._spares: deque[Player] = deque()
        self._refills: set[threading.Thread] = set()
        self._slots = threading.BoundedSemaphore(workers)
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="judge")
        self._closed = False

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        """One verdict. Raises only for wrong usage, a sandbox that was required and is missing, or a broken judge."""
        settings = self._settings(candidate, options)
        with self._slots:
            return self._verdict(task, candidate, settings)

    def judge_many(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        """Candidates of one task, one after the other: the task is brought up once, where `judge` from several threads would bring it
        up for each of them. Tasks in parallel, one call for each, keep a device busier than candidates of one task could."""
        chosen = [(candidate, self._settings(candidate, options)) for candidate in candidates]
        with self._slots:
            return [self._verdict(task, candidate, settings) for candidate, settings in chosen]

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        """The same without blocking the event loop; at most `workers` run at a time."""
        work: Callable[[], Verdict] = lambda: self.judge(task, candidate, **options)  # noqa: E731
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def judge_many_async(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        work: Callable[[], list[Verdict]] = lambda: self.judge_many(task, candidates, **options)  # noqa: E731
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def fitness(self, task: Task, **options: Any) -> dict[str, Any]:
        """Whether a task can be judged fairly, and why not. Raises `TaskError` when it cannot even be run."""
        task.validate()
        settings = self._settings(None, options)
        with self._slots:
            session = self._checkout(task, settings)
            try:
                report = session.fitness()
            except BaseException:
                self._drop(session)
                raise
            self._return(session)
        return report

    def close(self) -> None:
        """End every process. Safe to call twice, and while others still judge: their calls fail."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            spares = list(self._spares)
            self._spares.clear()
            refills = list(self._refills)
        for thread in refills:
            thread.join(10)
        for session in idle:
            session.close(at_once=True)
        for spare in [*spares, *self._spares]:
            spare.stop(at_once=True)
        if self._machine is not None:
            self._machine.server.close()
        self._executor.shutdown(wait=False)

    def _verdict(self, task: Task, candidate: Candidate, settings: Settings) -> Verdict:
        begun = time.monotonic()
        try:
            task.validate()
            verdict = self._judge(task, candidate, settings)
        except TaskError as error:
            verdict = Verdict(Outcome.INVALID_TASK, diagnosis=str(error), task_id=_id_of(task), candidate_id=candidate.id)
        stages = {**verdict.stages_s, "total": round(time.monotonic() - begun, 4)}
        return replace(verdict, fingerprint={**fingerprint(settings.device), "settings": _plain(settings)}, stages_s=stages)

    def _judge(self, task: Task, candidate: Candidate, settings: Settings) -> Verdict:
        refused = _refusal(candidate)
        if refused:
            return Verdict(Outcome.COMPILE_ERROR, diagnosis=refused, task_id=task.id, candidate_id=candidate.id)
        for attempt in (1, 2):
            begun = time.monotonic()
            try:
                session = self._checkout(task, settings, fresh=attempt > 1)
            except TaskError as error:
                if attempt == 1 and out_of_memory(str(error)) and self._make_room():
                    continue
                raise
            opening = round(time.monotonic() - begun, 4)
            player = self._player()
            sandbox = player.cell.sandbox.to_json()
            report: dict[str, Any] | None = None
            try:
                report = session.examine(player, candidate.source, candidate.language, settings)
            except TaskError:
                # A fresh session decides whether it is the task: a candidate may have broken the device under this one.
                if attempt == 2:
                    raise
            except JudgeError:
                if attempt == 2:
                    raise
            finally:
                ended = player.stop(ENDING_SECONDS if _died(report) else 0.0)
                if report is None:
                    self._drop(session)
                else:
                    self._return(session)
            if attempt == 1 and report is not None and _short_of_memory(report) and self._make_room():
                continue
            if report is not None:
                ending = {} if ended is None else asdict(ended)
                verdict = decide(task, candidate, settings, report, ending)
                return replace(verdict, sandbox=sandbox, stages_s={"opening": opening, **verdict.stages_s})
        raise JudgeError("unreachable")

    def _settings(self, candidate: Candidate | None, options: dict[str, Any]) -> Settings:
        try:
            settings = replace(self.settings, **options)
        except TypeError as error:
            raise UsageError(f"unknown option for a verdict: {error}") from None
        if candidate is not None and candidate.language == "triton" and settings.device == "cpu":
            settings = replace(settings, timed=False)
        return settings

    def _checkout(self, task: Task, settings: Settings, fresh: bool = False) -> Session:
        """An idle session for this task, or a new one; the one unused for longest makes room."""
        key = session_key(task, settings)
        machine = self._start()
        with self._lock:
            self._in_use += 1
            for session in self._idle:
                if session.key == key and not fresh:
                    self._idle.remove(session)
                    return session
            surplus = max(0, len(self._idle) + self._in_use - self.workers - SPARE_SESSIONS)
            evicted = sorted(self._idle, key=lambda s: s.last_used)[:surplus]
            self._idle = [session for session in self._idle if session not in evicted]
        if evicted:  # nobody waits for processes that end
            threading.Thread(target=_close_all, args=(evicted,), daemon=True).start()
        try:
            return Session(machine, task, settings)
        except BaseException:
            with self._lock:
                self._in_use -= 1
            raise

    def _return(self, session: Session) -> None:
        with self._lock:
            if not self._closed:
                self._in_use -= 1
                self._idle.append(session)
                return
        self._drop(session)

    def _drop(self, session: Session) -> None:
        with self._lock:
            self._in_use -= 1
        session.close()

    def _make_room(self) -> bool:
        """End the tasks that wait for candidates on a GPU. Whether there were any: then it is worth trying again what found no memory."""
        if self.settings.device == "cpu":
            return False
        with self._lock:
            idle, self._idle = self._idle, []
        _close_all(idle)
        return bool(idle)

    def _player(self) -> Player:
        """A fresh process for one candidate; the next one is started while this one works."""
        machine = self._start()
        with self._lock:
            player = self._spares.popleft() if self._spares else None
            thread = threading.Thread(target=self._refill, daemon=True)
            self._refills.add(thread)
            thread.start()  # inside the lock: close() joins whatever is listed
        if player is not None and player.cell.wait(0) is not None:
            player.stop()
            player = None
        return player or Player.start(machine)

    def _refill(self) -> None:
        try:
            player = Player.start(self._start())
        except (SandboxError, JudgeError):
            player = None  # the next verdict will meet the same error and report it, unless the judge is closed
        with self._lock:
            self._refills.discard(threading.current_thread())
            if player is not None and not self._closed and len(self._spares) < self.workers:
                self._spares.append(player)
                return
        if player is not None:
            player.stop()

    def _start(self) -> Machine:
        with self._lock:
            if self._closed:
                raise JudgeError("this judge was closed")
            if self._machine is None:
                self._machine = start_machine(self.settings, self.require_sandbox)
            return self._machine


def _refusal(candidate: Candidate) -> str:
    """Why a candidate need not even be started; empty when it may be."""
    if not candidate.source.strip():
        return "The candidate is empty: it must define a class ModelNew."
    if len(candidate.source) > SOURCE_LIMIT:
        return f"The candidate's source is larger than {SOURCE_LIMIT >> 10} KiB."
    if "\0" in candidate.source:
        return "The candidate's source contains null bytes."
    try:
        candidate.source.encode()
    except UnicodeEncodeError:
        return "The candidate's source is not valid Unicode."
    return ""


def _close_all(sessions: list[Session]) -> None:
    for session in sessions:
        session.close()


def _died(report: dict[str, Any] | None) -> bool:
    """Whether a candidate's process may be about to end by itself: how it ended then belongs into the verdict."""
    return report is None or (report.get("failure") or {}).get("kind") == "died"


def _short_of_memory(report: dict[str, Any]) -> bool:
    """Whether a candidate failed for want of device memory, which other tasks may have taken."""
    return out_of_memory(str((report.get("failure") or {}).get("text", "")))


def _id_of(task: Task) -> str:
    """Empty for a task that does not even parse."""
    try:
        return task.id
    except TaskError:
        return ""


def _plain(settings: Settings) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items() if name != "device"
    }
