"""The trusted mode as its user holds it, like `Judge`: a pool of worker processes, each of which judges all candidates of a task.

A worker that hangs is killed, one that dies or whose device is broken is replaced. A candidate is blamed only when the same happens again to
it alone in a fresh worker; the other candidates of the task go on. Nothing here withstands a candidate that cheats.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.held_folder import HeldFolder
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.decide import decide
from bottega.judge.device_facts import require_device
from bottega.judge.fingerprint import fingerprint
from bottega.judge.machine import Machine, start_machine
from bottega.judge.settings import Settings
from bottega.judge.trusted import NOTE, TRUSTED_VERSION
from bottega.judge.trusted.process import OnProblem, OnVerdict, TrustedBatch, TrustedProcess, WorkerFailure

TIMEOUT_SECONDS = 20.0
TASKS_EACH = 150
"""A worker is replaced after so many: thousands of loaded kernels pile up in a process."""


def ignore(*_: Any) -> None:
    """For a caller that only wants the result."""


class TrustedJudge:
    """Use it as a context manager, or call `close`. `judge_many` may be called from as many threads as there are workers."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        workers: int = 2,
        baselines: tuple[str, ...] = ("eager",),
        precision: str = "fp32",
        timeout: float = TIMEOUT_SECONDS,
        timed: bool = True,
        require_sandbox: bool = False,
    ) -> None:
        """`timed`: false where only right or wrong is asked; nobody then waits for the device. `require_sandbox`: for kernels that are not our
        own. The machine and others' verdicts are safe from them then; what they say of themselves is not."""
        if workers < 1:
            raise UsageError("the trusted judge needs at least one worker")
        require_device(device)
        self.settings = Settings(
            device=device, baselines=baselines, quick=True, precision=precision, timeout=timeout, timed=timed
        )
        self.workers, self.require_sandbox = workers, require_sandbox
        self.seconds: Counter[str] = Counter()
        """Of all workers together, by what they did."""
        self.replaced: Counter[str] = Counter()
        """Workers that were ended, by what was wrong with them, and draws of inputs that a candidate had written into."""
        self.errors: list[str] = []
        """Tracebacks of our own errors."""
        self._fingerprint = {**fingerprint(device), "settings": self.settings.to_json(), "trusted": TRUSTED_VERSION}
        self._cache = HeldFolder("bottega-trusted-")
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._idle: list[TrustedProcess] = []
        self._started = 0
        """Workers that are running, also those at work."""
        self._profiles = True
        self._closed = False
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="trusted")

    def __enter__(self) -> TrustedJudge:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def judge(self, task: Task, candidate: Candidate) -> Verdict:
        """One verdict. Raises `JudgeError` where there is none."""
        problems: list[str] = []
        (verdict,) = self.judge_many(task, [candidate], on_problem=problems.append)
        if verdict is None:
            raise JudgeError("; ".join(problems) or "the candidate has no verdict; judge it again")
        return verdict

    def judge_many(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        on_verdict: OnVerdict = ignore,
        on_problem: OnProblem = ignore,
        *,
        rounds: int = 0,
        profiled: bool = True,
    ) -> list[Verdict | None]:
        """A verdict for each candidate; `on_verdict` gets each as it comes, in any order. None where there is none, and `on_problem` gets the
        reason. A task that cannot be judged gives one verdict that says so, and its candidates have none. `rounds`: so many for each, to
        compare candidates with each other; 0 stops as soon as each is told from eager. `profiled`: whether coverage is measured."""
        verdicts: dict[str, Verdict] = {}

        def report(candidate: Candidate, verdict: Verdict) -> None:
            verdicts[candidate.id] = replace(verdict, fingerprint=self._fingerprint)
            on_verdict(candidate, verdicts[candidate.id])

        batches, suspects, task_failed = [list(candidates)], set[str](), False
        while batches := [batch for batch in batches if batch]:
            chosen = batches.pop(0)
            worker = self._worker_for(task, fresh=chosen[0].id in suspects)
            batch = TrustedBatch(task, chosen, self.settings, report, on_problem, rounds)
            try:
                failure = worker.judge(batch, profiled and self._profiles)
            except BaseException:
                self._stop(worker)
                raise
            if failure is None:
                self._give_back(worker, batch)
                if batch.invalid:
                    break
                continue
            self._stop(worker)
            if self._closed:
                raise JudgeError("this judge was closed")
            self.replaced[failure.kind] += 1
            suspect = next((one for one in batch.left if one.id == failure.candidate), None)
            others = [one for one in batch.left if one is not suspect]
            if failure.kind == "error":
                self.errors.append(failure.trace)
                lost = 1 if suspect is not None else len(others)
                last = (failure.trace.strip().splitlines() or [""])[-1][:200]
                on_problem(f"the trusted judge failed on {lost} kernels: {last}")
                batches.insert(0, others if suspect is not None else [])
            elif (
                failure.stage == "profiling" and profiled and self._profiles
            ):  # more likely the profiler's fault than the candidate's
                self._profiles = False
                batches.insert(0, batch.left)
            elif suspect is None:
                if task_failed:
                    where = f"{failure.kind} while {failure.stage or 'starting'}"
                    on_problem(f"the task ended its process twice ({where}); its kernels have no verdict")
                    break
                task_failed = True
                batches.insert(0, others)
            elif suspect.id in suspects:
                report(suspect, self._blame(task, suspect, failure))
                batches.insert(0, others)
            else:
                suspects.add(suspect.id)
                batches[:0] = [[suspect], others]
        return [verdicts.get(candidate.id) for candidate in candidates]

    async def judge_many_async(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        on_verdict: OnVerdict = ignore,
        on_problem: OnProblem = ignore,
    ) -> list[Verdict | None]:
        """The same without blocking the event loop; both callbacks are called from another thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self.judge_many, task, candidates, on_verdict, on_problem)

    def close(self) -> None:
        """End every process. Safe to call twice, and while others still judge: their calls fail."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            self._stop(worker)
        if self._machine is not None:
            self._machine.server.close()  # whoever waits for a worker at work gets an error
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._cache.close()

    def _blame(self, task: Task, candidate: Candidate, failure: WorkerFailure) -> Verdict:
        report = failure.report or {"failure": {"kind": failure.kind}, "notes": [NOTE]}
        return decide(task, candidate, self.settings, report, failure.ending)

    def _worker_for(self, task: Task, fresh: bool) -> TrustedProcess:
        """An idle worker, if possible one in which the task is open; else a new one."""
        with self._lock:
            if self._closed:
                raise JudgeError("this judge was closed")
            if self._machine is None:
                self._machine = start_machine(self.settings, require_sandbox=self.require_sandbox)
            if not fresh and self._idle:
                # Else one that is likely done with its own task: a task's candidates come in two batches.
                worker = min(self._idle, key=lambda one: (one.task != task.id, one.batches < 2))
                self._idle.remove(worker)
                return worker
            spare = self._idle.pop() if fresh and self._started >= self.workers and self._idle else None
        if spare is not None:
            self._stop(spare)
        worker = TrustedProcess(self._machine, self.settings, self.workers, self._cache.path, foreign=self.require_sandbox)
        with self._lock:
            self._started += 1
        return worker

    def _give_back(self, worker: TrustedProcess, batch: TrustedBatch) -> None:
        with self._lock:
            self.replaced["inputs overwritten"] += int(batch.seconds.pop("overwritten", 0))
            self.seconds.update(batch.seconds)
            if worker.rests and not self._closed and worker.tasks < TASKS_EACH:
                self._idle.append(worker)
                return
        self._stop(worker)

    def _stop(self, worker: TrustedProcess) -> None:
        with self._lock:
            self._started -= 1
        worker.stop()
