"""The public interface of the judge: one object that owns the worker processes and judges any number of candidates, blocking or async.

It runs no task and no candidate itself and does not import torch; it starts processes, passes descriptors between
them, and turns the controller's reports into verdicts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

from bottega.core.candidate import SOURCE_LIMIT, Candidate
from bottega.core.errors import JudgeError, TaskError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.asking import ask
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.coverage import claimed_kernels
from bottega.judge.decide import decide
from bottega.judge.device_facts import require_device
from bottega.judge.fingerprint import fingerprint
from bottega.judge.invalid_task import out_of_memory
from bottega.judge.machine import Workers, lane_count, worker_count
from bottega.judge.memory_admission import AdmittedTask, ShortOfMemory
from bottega.judge.remote import RemoteJudge
from bottega.judge.session import Session, TaskKilled, TaskLost
from bottega.judge.session_pool import SessionPool
from bottega.judge.settings import Settings
from bottega.judge.slots import Slots
from bottega.judge.worker_process import ENDING_SECONDS
from bottega.languages import language_named
from bottega.sandbox.fork_server import SandboxExit

LOG = logging.getLogger(__name__)


class Judge:
    """Use it as a context manager, or call `close`. Every method may be called from any thread."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        workers: Workers = "auto",
        require_sandbox: bool = False,
        warn: Callable[[str], None] = LOG.warning,
        **defaults: Any,
    ):
        """`warn` gets a line when a verdict waits long for memory that other processes hold."""
        try:
            self.settings = Settings(device=device, **defaults)
        except TypeError as error:
            raise UsageError(f"unknown option for the judge: {error}") from None
        require_device(device)
        self.workers = worker_count(workers, device)
        self.lanes = lane_count(self.workers, device)
        """How many verdicts to ask for at a time to keep it busy."""
        self._slots = Slots(self.workers)
        self._pool = SessionPool(self.settings, self.workers, require_sandbox, warn, self._slots.paused)
        self._executor = ThreadPoolExecutor(self.lanes, thread_name_prefix="judge")

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @staticmethod
    def remote(url: str, token: str | None = None, device: str | None = None, **defaults: Any) -> RemoteJudge:
        """A judge with the same methods, whose verdicts come from a `bottega serve` elsewhere. Without `token` it is taken from
        BOTTEGA_TOKEN or from the file that BOTTEGA_TOKEN_FILE names; without `device` it is the server's first."""
        return RemoteJudge(url, token, device, **defaults)

    def judge(self, task: Task, candidate: Candidate, *, cancellation: Cancellation | None = None, **options: Any) -> Verdict:
        """One verdict. Raises only for wrong usage, a sandbox that was required and is missing, or a broken judge; and `Cancelled`."""
        settings = self._settings(candidate, options)
        with self._slots.taken(self._pool.is_open(task)):
            return self._verdict(task, candidate, settings, cancellation=cancellation)

    def judge_many(self, task: Task, candidates: Sequence[Candidate], **options: Any) -> list[Verdict]:
        """Candidates of one task, one after the other: the task is opened once, where `judge` from several threads would open it
        for each of them. Tasks in parallel, one call for each, keep a device busier than candidates of one task could."""
        chosen = [(candidate, self._settings(candidate, options)) for candidate in candidates]
        last = len(chosen) - 1
        with self._slots.taken():
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

    def fitness(self, task: Task, *, cancellation: Cancellation | None = None, **options: Any) -> dict[str, Any]:
        """Whether a task can be judged fairly, and why not. Raises `TaskError` when it cannot even be run; and `Cancelled`."""
        task.validate()
        settings = self._settings(None, options)
        cancellation = cancellation or Cancellation()
        with self._slots.taken():
            try:
                return self._fitness(task, settings, cancellation)
            except ShortOfMemory as short:  # beside others, which is no fault of the task
                assert self._pool.admission is not None
                self._pool.admission.require_whole_gpu(short.admitted)
            return self._fitness(task, settings, cancellation)

    def _fitness(self, task: Task, settings: Settings, cancellation: Cancellation, again: bool = False) -> dict[str, Any]:
        session = self._open(task, settings, cancellation, fresh=again)
        admitted = session.admitted
        try:
            with cancellation.killing(session.kill):
                report = session.fitness()
        except TaskError as error:
            self._pool.drop(session)
            if admitted is not None and not admitted.alone and out_of_memory(str(error)):
                raise ShortOfMemory(str(error), admitted) from None
            raise self._blamed(error, admitted) from None
        except JudgeError:  # its process was lost, which is no fault of the task either
            self._pool.drop(session)
            if again:
                raise
            return self._fitness(task, settings, cancellation, again=True)
        except BaseException:
            self._pool.drop(session)
            raise
        self._pool.hold(session)
        return report

    def ask(self, entry: str, label: str, *, cancellation: Cancellation | None = None, **arguments: Any) -> dict[str, Any]:
        """What a function of ours, `module:function`, finds in a sandboxed process on this device; see `judge/asking.py`."""
        return ask(self._pool.machine(), self.settings, cancellation or Cancellation(), entry, label, arguments)

    def close(self) -> None:
        """End every process. Safe to call twice, and while others still judge: their calls fail."""
        self._pool.close()
        self._executor.shutdown(wait=False)

    def _verdict(
        self, task: Task, candidate: Candidate, settings: Settings, more: bool = False, cancellation: Cancellation | None = None
    ) -> Verdict:
        begun = time.monotonic()
        try:
            task.validate()
            verdict = self._judge(task, candidate, settings, cancellation or Cancellation(), more)
        except TaskError as error:
            verdict = Verdict(Outcome.INVALID_TASK, diagnosis=str(error), task_id=_id_of(task), candidate_id=candidate.id)
        stages = {**verdict.stages_s, "total": round(time.monotonic() - begun, 4)}
        return replace(verdict, fingerprint={**fingerprint(settings.device), "settings": settings.to_json()}, stages_s=stages)

    def _judge(
        self, task: Task, candidate: Candidate, settings: Settings, cancellation: Cancellation, more: bool = False
    ) -> Verdict:
        """`more`: candidates of the same task follow at once."""
        refused = _refusal(candidate)
        if refused:
            return Verdict(Outcome.COMPILE_ERROR, diagnosis=refused, task_id=task.id, candidate_id=candidate.id)
        claimed = claimed_kernels(candidate.source, candidate.language)
        again = alone = False
        while True:
            begun = time.monotonic()
            session = self._open(task, settings, cancellation, fresh=again or alone, alone=alone)
            admitted = session.admitted
            opening = {"opening": round(time.monotonic() - begun, 4), **_wait(admitted, begun)}
            worker = self._pool.worker()
            sandbox = worker.sandbox.report.to_json()
            report: dict[str, Any] | None = None
            try:
                with cancellation.killing(session.kill), cancellation.killing(worker.sandbox.kill):
                    report = session.evaluate(worker, candidate.source, claimed, settings)
            except Cancelled:
                report = None  # a session that was killed under it is not to be used again
                raise
            except (TaskError, JudgeError) as error:
                if admitted is not None and out_of_memory(str(error)) and not admitted.alone:
                    alone = True
                elif again:
                    raise self._blamed(error, admitted) from None
                else:
                    again = True  # a fresh session decides whether it is the task: a candidate may have broken the device under this one
            finally:
                ended = worker.stop(ENDING_SECONDS if _died(report) else 0.0)
                if report is None:
                    self._pool.drop(session)
                else:
                    self._pool.give_back(session, more)
            if report is None:
                continue
            if not again and _died(report) and ended is not None and ended.reason == "lost":
                again = True  # who supervises it was killed, by a system that is out of memory, say: no candidate's doing
                continue
            if admitted is not None and self._pool.admission is not None and _short_of_memory(report, ended):
                if not admitted.alone:
                    alone = True
                    continue
                if innocent := self._pool.admission.candidate_ran_short(admitted):
                    raise innocent
            ending = {} if ended is None else asdict(ended)
            verdict = decide(task, candidate, settings, report, ending)
            return replace(verdict, sandbox=sandbox, stages_s={**opening, **verdict.stages_s})

    def _blamed(self, error: TaskError | JudgeError, admitted: AdmittedTask | None) -> TaskError | JudgeError:
        """The error itself, or for a task that has the GPU alone and finds too little memory, how much it needs."""
        if admitted is None or self._pool.admission is None or isinstance(error, JudgeError) or not out_of_memory(str(error)):
            return error
        return self._pool.admission.refusal(admitted)

    def _open(
        self, task: Task, settings: Settings, cancellation: Cancellation, fresh: bool = False, alone: bool = False
    ) -> Session:
        """The task, opened. One that finds no memory beside others is opened once more, alone on the GPU; one whose processes were killed is so,
        too: a machine that is out of memory does that to any."""
        try:
            try:
                return self._pool.checkout(task, settings, cancellation, fresh, alone)
            except (TaskKilled, TaskLost):
                cancellation.check()  # who cancels kills them as well
                return self._pool.checkout(task, settings, cancellation, True, alone)
        except ShortOfMemory as short:
            assert self._pool.admission is not None
            if short.admitted.alone:
                raise self._pool.admission.refusal(short.admitted) from None
            self._pool.admission.require_whole_gpu(short.admitted)
        return self._open(task, settings, cancellation, fresh=True, alone=True)

    def _settings(self, candidate: Candidate | None, options: dict[str, Any]) -> Settings:
        try:
            settings = replace(self.settings, **options)
        except TypeError as error:
            raise UsageError(f"unknown option for a verdict: {error}") from None
        if candidate is not None and not language_named(candidate.language).is_timed_on(settings.device):
            settings = replace(settings, timed=False)
        return settings


def _refusal(candidate: Candidate) -> str:
    """Why a candidate is refused without running it; empty when it may run."""
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


def _died(report: dict[str, Any] | None) -> bool:
    """Whether a candidate's process may be about to end by itself: how it ended then belongs into the verdict."""
    return report is None or (report.get("failure") or {}).get("kind") == "died"


def _short_of_memory(report: dict[str, Any], ended: SandboxExit | None) -> bool:
    """Whether a candidate failed for want of memory, which other tasks may have taken. It may only say so as its process ends."""
    failure = report.get("failure") or {}
    last = ended.output if ended is not None and failure.get("kind") == "died" else ""
    return out_of_memory(f"{failure.get('type', '')} {failure.get('text', '')} {last}")


def _wait(admitted: AdmittedTask | None, begun: float) -> dict[str, float]:
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
