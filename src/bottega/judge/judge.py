"""The judge as a user holds it: one object that owns the workers and judges any number of candidates, blocking or async.

It runs no task and no candidate itself and does not import torch; it starts processes, passes descriptors between
them, and turns the referee's reports into verdicts.
"""

from __future__ import annotations

import asyncio
import logging
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
from bottega.judge.admission import Admission, Admitted, ShortOfMemory
from bottega.judge.decide import decide
from bottega.judge.device_facts import is_here
from bottega.judge.fingerprint import fingerprint
from bottega.judge.invalid import out_of_memory
from bottega.judge.machine import Machine, Workers, start_machine, worker_count
from bottega.judge.memory_ledger import Claim, MemoryLedger
from bottega.judge.memory_need import CONTEXT_BYTES
from bottega.judge.memory_rules import AGEING_SECONDS
from bottega.judge.session import ENDING_SECONDS, Player, Session, session_key
from bottega.judge.settings import Settings

_LOG = logging.getLogger(__name__)
SPARE_SESSIONS = 4
"""Tasks that stay up beside those being judged."""
HELD_SECONDS = 2.0
"""A task that was only looked at is not closed for so long: its first candidate mostly follows at once, and opening it again takes longer."""
LOOKING_SECONDS = 0.2
"""How often a judge that keeps something on a GPU looks whether another process waits for memory there."""


class Judge:
    """Use it as a context manager, or call `close`. Every method may be called from any thread."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        workers: Workers = "auto",
        require_sandbox: bool = False,
        say: Callable[[str], None] = _LOG.warning,
        **defaults: Any,
    ):
        """`say` gets a line where a verdict waits for long, for memory that others hold."""
        try:
            self.settings = Settings(device=device, **defaults)
        except TypeError as error:
            raise UsageError(f"unknown option for the judge: {error}") from None
        if not is_here(device):
            raise UsageError(f"device {device}: no NVIDIA GPU is visible here; use --device cpu")
        self.workers = worker_count(workers, device)
        self.require_sandbox = require_sandbox
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._idle: list[Session] = []
        self._in_use = 0
        """Sessions that are up for a verdict under way."""
        self._spares: deque[tuple[Player, Claim | None]] = deque()
        self._refills: set[threading.Thread] = set()
        self._slots = threading.BoundedSemaphore(self.workers)
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="judge")
        self._closed = False
        self._looking = False
        """Whether a thread looks out for others who wait for memory."""
        self._admission: Admission | None = None
        if device != "cpu":
            self._admission = Admission(MemoryLedger(device), self._give_way, lambda: self._closed, say)

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
        last = len(chosen) - 1
        with self._slots:
            return [
                self._verdict(task, candidate, settings, more=place < last)
                for place, (candidate, settings) in enumerate(chosen)
            ]

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
            session = self._up(task, settings)
            try:
                report = session.fitness()
            except BaseException:
                self._drop(session)
                raise
            self._hold(session)
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
        for spare, claim in [*spares, *self._spares]:
            spare.stop(at_once=True)
            if claim is not None:
                claim.release()
        if self._machine is not None:
            self._machine.server.close()
        self._executor.shutdown(wait=False)

    def _verdict(self, task: Task, candidate: Candidate, settings: Settings, more: bool = False) -> Verdict:
        begun = time.monotonic()
        try:
            task.validate()
            verdict = self._judge(task, candidate, settings, more)
        except TaskError as error:
            verdict = Verdict(Outcome.INVALID_TASK, diagnosis=str(error), task_id=_id_of(task), candidate_id=candidate.id)
        stages = {**verdict.stages_s, "total": round(time.monotonic() - begun, 4)}
        return replace(verdict, fingerprint={**fingerprint(settings.device), "settings": _plain(settings)}, stages_s=stages)

    def _judge(self, task: Task, candidate: Candidate, settings: Settings, more: bool = False) -> Verdict:
        """`more`: candidates of the same task follow at once."""
        refused = _refusal(candidate)
        if refused:
            return Verdict(Outcome.COMPILE_ERROR, diagnosis=refused, task_id=task.id, candidate_id=candidate.id)
        again = alone = False
        while True:
            begun = time.monotonic()
            session = self._up(task, settings, fresh=again or alone, alone=alone)
            admitted = session.admitted
            opening = {"opening": round(time.monotonic() - begun, 4), **_wait(admitted, begun)}
            player = self._player()
            sandbox = player.cell.sandbox.to_json()
            report: dict[str, Any] | None = None
            try:
                report = session.examine(player, candidate.source, candidate.language, settings)
            except (TaskError, JudgeError) as error:
                if admitted is not None and out_of_memory(str(error)) and not admitted.alone:
                    alone = True
                elif again:
                    raise self._blamed(error, admitted) from None
                else:
                    again = True  # a fresh session decides whether it is the task: a candidate may have broken the device under this one
            finally:
                ended = player.stop(ENDING_SECONDS if _died(report) else 0.0)
                if report is None:
                    self._drop(session)
                else:
                    self._return(session, more)
            if report is None:
                continue
            if admitted is not None and self._admission is not None and _short_of_memory(report):
                if not admitted.alone:
                    alone = True
                    continue
                if innocent := self._admission.candidate_ran_short(admitted):
                    raise innocent
            ending = {} if ended is None else asdict(ended)
            verdict = decide(task, candidate, settings, report, ending)
            return replace(verdict, sandbox=sandbox, stages_s={**opening, **verdict.stages_s})

    def _blamed(self, error: TaskError | JudgeError, admitted: Admitted | None) -> TaskError | JudgeError:
        """The error itself, or for a task that has the card alone and finds too little memory, how much it needs."""
        if admitted is None or self._admission is None or isinstance(error, JudgeError) or not out_of_memory(str(error)):
            return error
        return self._admission.refusal(admitted)

    def _up(self, task: Task, settings: Settings, fresh: bool = False, alone: bool = False) -> Session:
        """The task, opened. One that finds no memory beside others is opened once more, alone on the card."""
        try:
            return self._checkout(task, settings, fresh, alone)
        except ShortOfMemory as short:
            assert self._admission is not None
            if short.admitted.alone:
                raise self._admission.refusal(short.admitted) from None
            self._admission.not_beside_others(short.admitted)
        return self._up(task, settings, fresh=True, alone=True)

    def _settings(self, candidate: Candidate | None, options: dict[str, Any]) -> Settings:
        try:
            settings = replace(self.settings, **options)
        except TypeError as error:
            raise UsageError(f"unknown option for a verdict: {error}") from None
        if candidate is not None and candidate.language == "triton" and settings.device == "cpu":
            settings = replace(settings, timed=False)
        return settings

    def _checkout(self, task: Task, settings: Settings, fresh: bool = False, alone: bool = False) -> Session:
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
            return Session(machine, task, settings, self._admission, alone)
        except BaseException:
            with self._lock:
                self._in_use -= 1
            raise

    def _return(self, session: Session, more: bool = False) -> None:
        """Keep it for the next candidate, unless somebody waits for its memory: a short wait where candidates of its task follow at once."""
        wanted = self._admission is not None and (
            (session.admitted is not None and session.admitted.alone) or self._admission.wanted(AGEING_SECONDS if more else 0.0)
        )
        with self._lock:
            if not self._closed and not wanted:
                self._in_use -= 1
                self._idle.append(session)
                self._look_out()
                return
        self._drop(session)

    def _hold(self, session: Session) -> None:
        """Keep it for a while whoever waits for its memory."""
        session.held_until = time.monotonic() + HELD_SECONDS
        with self._lock:
            if not self._closed:
                self._in_use -= 1
                self._idle.append(session)
                self._look_out()
                return
        self._drop(session)

    def _drop(self, session: Session) -> None:
        with self._lock:
            self._in_use -= 1
        session.close()

    def _give_way(self, size: int) -> None:
        """Give back so many bytes of a GPU's memory, as far as idle processes hold them: spare ones first, then tasks, the one unused for
        longest first."""
        if size <= 0:
            return
        spares: list[tuple[Player, Claim | None]] = []
        sessions: list[Session] = []
        with self._lock:
            while self._spares and size > 0:
                spares.append(self._spares.popleft())
                size -= CONTEXT_BYTES
            for session in sorted(self._idle, key=lambda one: one.last_used):
                if size > 0 and session.held_until < time.monotonic():
                    sessions.append(session)
                    self._idle.remove(session)
                    size -= session.admitted.claim.size if session.admitted is not None else 0
        for player, claim in spares:
            player.stop()
            if claim is not None:
                claim.release()
        _close_all(sessions)

    def _look_out(self) -> None:
        """While something idle is on a GPU, a thread looks whether another process waits for it. Called with the lock held."""
        if self._admission is not None and not self._looking:
            self._looking = True
            threading.Thread(target=self._give_way_to_others, daemon=True).start()

    def _give_way_to_others(self) -> None:
        assert self._admission is not None
        while True:
            time.sleep(LOOKING_SECONDS)
            with self._lock:
                self._looking = not self._closed and bool(self._idle or self._spares)
                if not self._looking:
                    return
            self._give_way(self._admission.ledger.missing())

    def _player(self) -> Player:
        """A fresh process for one candidate; the next one is started while this one works."""
        machine = self._start()
        with self._lock:
            player, claim = self._spares.popleft() if self._spares else (None, None)
            thread = threading.Thread(target=self._refill, daemon=True)
            self._refills.add(thread)
            thread.start()  # inside the lock: close() joins whatever is listed
        if claim is not None:
            claim.release()  # from here on it is part of what the task has claimed
        if player is not None and player.cell.wait(0) is not None:
            player.stop()
            player = None
        return player or Player.start(machine)

    def _refill(self) -> None:
        """On a GPU a spare process has a context, so it is kept only where that takes nothing from anybody who waits."""
        player, claim, refused = None, None, False
        try:
            if self._admission is not None:
                claim = self._admission.ledger.try_claim(CONTEXT_BYTES, "a process for the next candidate")
                refused = claim is None
            if not refused:
                player = Player.start(self._start())
        except (SandboxError, JudgeError):
            player = None  # the next verdict will meet the same error and report it, unless the judge is closed
        with self._lock:
            self._refills.discard(threading.current_thread())
            if player is not None and not self._closed and len(self._spares) < self.workers:
                self._spares.append((player, claim))
                self._look_out()
                return
        if player is not None:
            player.stop()
        if claim is not None:
            claim.release()

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
    """Whether a candidate failed for want of memory, which other tasks may have taken."""
    failure = report.get("failure") or {}
    return out_of_memory(f"{failure.get('type', '')} {failure.get('text', '')}")


def _wait(admitted: Admitted | None, begun: float) -> dict[str, float]:
    """Seconds of the opening that were spent waiting for memory, where there was any; an idle session's are long over."""
    if admitted is None or admitted.claim.entry.since < begun:
        return {}
    return {"admission": round(admitted.claim.waited, 4)}


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
