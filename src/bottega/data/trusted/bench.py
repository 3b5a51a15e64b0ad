"""The trusting bench as its user holds it: worker processes that judge kernels of trusted teachers, watched from here.

A worker that hangs is killed, one that dies or whose device is broken is replaced. A kernel gets the blame only when the same happens once
more to it alone in a fresh worker; the other kernels of the task go on. It is no judge: nothing here withstands hostile code.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import TracebackType
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.reaping import ended, start
from bottega.data.trusted.entry import begin
from bottega.data.trusted.orders import LOG, UNDER_WAY, Orders
from bottega.data.trusted.trust import NOTE
from bottega.judge.decide import decide
from bottega.judge.device_facts import is_here
from bottega.judge.fingerprint import fingerprint
from bottega.judge.settings import Settings

LIMIT_SECONDS = 20.0
START_SECONDS = 120.0
LONGEST_WAIT = 900.0
"""For the device; it counts for no kernel."""
TIMING_SECONDS = 120.0
TASKS_EACH = 150
"""A worker is replaced after so many: thousands of loaded kernels pile up in a process."""
LAST_WORDS = 3000

Told = Callable[[Candidate, Verdict], None]


@dataclass
class Trouble:
    """What ended a worker, and at which kernel it was."""

    kind: str
    """`timeout`, `died`, `poisoned`, or `broken`: the last is a fault of ours."""
    candidate: str = ""
    """Empty while the task itself was brought up."""
    stage: str = ""
    found: dict[str, Any] = field(default_factory=dict)
    ending: dict[str, Any] = field(default_factory=dict)


class TrustedBench:
    """Use it as a context manager, or call `close`. `judge` may be called from as many threads as there are workers."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        workers: int = 2,
        baselines: tuple[str, ...] = ("eager",),
        precision: str = "fp32",
        limit: float = LIMIT_SECONDS,
    ) -> None:
        if workers < 1 or limit <= 0:
            raise UsageError("a bench needs at least one worker, and a kernel more than 0 seconds")
        if not is_here(device):
            raise UsageError(f"device {device}: no NVIDIA GPU is visible here; use --device cpu")
        self.settings = Settings(device=device, baselines=baselines, quick=True, precision=precision, timeout=limit)
        self.workers = workers
        self.spent: Counter[str] = Counter()
        """Seconds of all workers together, by what they did."""
        self.replaced: Counter[str] = Counter()
        """Workers that were ended, by what was wrong with them, and draws that a kernel had written into."""
        self.faults: list[str] = []
        """Tracebacks of our own errors."""
        kind, _, index = device.partition(":")
        self._folder = tempfile.mkdtemp(prefix="bottega-trusted-")
        lease = "cpu" if kind == "cpu" else f"{kind}:{index or 0}"
        self._orders = Orders(self.settings, self._folder, lease, workers)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["bottega.data.trusted.preload"])
        ensure_running()  # now, before a classroom has it started with less
        self._lock = threading.Lock()
        self._idle: list[_Seat] = []
        self._alive: set[_Seat] = set()
        self._made = 0
        self._profiled = True
        self._closed = False
        self.threads = ThreadPoolExecutor(workers, thread_name_prefix="trusted")

    def __enter__(self) -> TrustedBench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def judge_async(
        self, task: Task, candidates: Sequence[Candidate], told: Told, trouble: Callable[[str], None]
    ) -> None:
        """`judge` in a thread of the bench."""
        work = lambda: self.judge(task, candidates, told, trouble)  # noqa: E731
        await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def judge(self, task: Task, candidates: Sequence[Candidate], told: Told, trouble: Callable[[str], None]) -> None:
        """A verdict for every kernel, told as it comes, in any order. Kernels without one are told of as trouble.

        A task that cannot be judged gets one verdict that says so, and its kernels none.
        """
        groups: list[list[Candidate]] = [list(candidates)]
        suspects: set[str] = set()
        opened = 0
        while groups:
            group = groups.pop(0)
            alone = len(group) == 1 and group[0].id in suspects
            shift = _Shift(task, group, self._told(told), trouble, self.settings.timeout)
            seat = self._seat_for(task, fresh=alone)
            try:
                ended = seat.converse(shift, self._profiled)
            except BaseException:
                seat.end()
                raise
            if ended is None:
                self._give_back(seat, shift)
                if shift.invalid:
                    return
                continue
            seat.end()
            if self._closed:
                raise JudgeError("this bench was closed")
            self.replaced[ended.kind] += 1
            left = shift.left()
            culprit = next((one for one in left if one.id == ended.candidate), None)
            if ended.kind == "broken":
                with self._lock:
                    self.faults.append(ended.found["trace"])
                lost = [culprit] if culprit is not None else left
                trouble(
                    f"the trusting bench failed on {len(lost)} kernels: {ended.found['trace'].strip().splitlines()[-1][:200]}"
                )
                groups.insert(0, [one for one in left if one not in lost])
            elif ended.stage == "profiling":  # the profiler's fault, more likely than the kernel's
                self._profiled = False
                groups.insert(0, left)
            elif culprit is None:
                opened += 1
                if opened > 1:
                    trouble(
                        f"the task ended its process twice ({ended.kind} while {ended.stage or 'starting'}); its kernels have no verdict"
                    )
                    return
                groups.insert(0, left)
            elif culprit.id in suspects:
                self._told(told)(culprit, self._blamed(task, culprit, ended))
                groups.insert(0, [one for one in left if one is not culprit])
            else:
                suspects.add(culprit.id)
                groups[:0] = [[culprit], [one for one in left if one is not culprit]]
            groups = [one for one in groups if one]

    def close(self) -> None:
        """End every worker, also those at work: whoever waits for them gets an error."""
        with self._lock:
            self._closed = True
            seats = list(self._alive)
            self._idle = []
        for seat in seats:
            seat.end()
        self.threads.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _told(self, told: Told) -> Told:
        facts = {**fingerprint(self.settings.device), "settings": _plain(self.settings)}
        return lambda candidate, verdict: told(candidate, replace(verdict, fingerprint=facts))

    def _blamed(self, task: Task, candidate: Candidate, trouble: Trouble) -> Verdict:
        """The verdict on a kernel that did the same twice."""
        found = trouble.found or {"failure": {"kind": trouble.kind}, "notes": [NOTE]}
        return decide(task, candidate, self.settings, found, trouble.ending)

    def _seat_for(self, task: Task, fresh: bool) -> _Seat:
        """An idle worker, best one that has the task up; else a new one."""
        with self._lock:
            if self._closed:
                raise JudgeError("this bench was closed")
            if not fresh and self._idle:
                # One that has the task up; else one that is likely done with its own: the mistakes in its kernels come second.
                seat = min(self._idle, key=lambda one: (one.task != task.id, one.shifts < 2))
                self._idle.remove(seat)
                return seat
            spare = self._idle.pop() if fresh and len(self._alive) >= self.workers and self._idle else None
            self._made += 1
            name = f"worker-{self._made}"
        if spare is not None:
            spare.end()
        seat = _Seat(self._context, self._orders, name, self._alive)
        try:
            seat.introduced()
        except BaseException:
            seat.end()
            raise
        return seat

    def _give_back(self, seat: _Seat, shift: _Shift) -> None:
        with self._lock:
            self.replaced["draws of inputs"] += int(shift.spent.pop("remade", 0))
            self.spent.update(shift.spent)
            if not self._closed and seat.tasks < TASKS_EACH:
                self._idle.append(seat)
                return
        seat.end()


class _Shift:
    """One task with some of its kernels at one worker: what came of it so far."""

    def __init__(
        self, task: Task, group: Sequence[Candidate], told: Told, trouble: Callable[[str], None], limit: float
    ) -> None:
        self.task, self.group, self.limit = task, group, limit
        self.by_id = {one.id: one for one in group}
        self.invalid = False
        self.spent: Counter[str] = Counter()
        self._told, self._trouble = told, trouble
        self._settled: set[str] = set()
        self._used: dict[str, float] = {}
        self.candidate, self.stage, self._since = "", "opening", time.monotonic()

    def left(self) -> list[Candidate]:
        return [one for one in self.group if one.id not in self._settled]

    def seconds_left(self, task_timeout: float) -> float:
        """How long to wait for the next word."""
        gone = time.monotonic() - self._since
        if self.stage == "waiting":
            return LONGEST_WAIT - gone
        if self.stage == "timing":
            return TIMING_SECONDS - gone
        if not self.candidate:
            return task_timeout - gone
        return self.limit - self._used.get(self.candidate, 0.0) - gone

    def heard(self, message: tuple[Any, ...]) -> bool:
        """Take in what a worker says; True when it was the last word."""
        kind = message[0]
        now = time.monotonic()
        if self.candidate and self.stage != "waiting":
            self._used[self.candidate] = self._used.get(self.candidate, 0.0) + now - self._since
        self._since = now
        if kind == "at":
            _, self.candidate, self.stage = message
        elif kind == "verdict":
            self._settled.add(message[1])
            verdict: Verdict = message[2]
            self.spent.update({name: seconds for name, seconds in verdict.stages_s.items() if name != "total"})
            self._told(self.by_id[message[1]], verdict)
        elif kind == "crowded":
            for name in [message[1]] if message[1] else [one.id for one in self.left()]:
                self._settled.add(name)
                self._trouble("the device's memory was full, and a kernel has no verdict; it is left to the next run")
        elif kind == "invalid":
            self.invalid = True
            verdict = Verdict(Outcome.INVALID_TASK, diagnosis=message[1], task_id=self.task.id, candidate_id=self.group[0].id)
            self._told(self.group[0], verdict)
        elif kind == "done":
            self.spent.update(message[1])
            return True
        return False


class _Seat:
    """One worker and the pipe to it."""

    def __init__(self, context: Any, orders: Orders, name: str, alive: set[_Seat]) -> None:
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=begin, args=(theirs, os.getpid(), orders, name), daemon=True)
        start(self._process)
        theirs.close()
        self._folder = Path(orders.folder) / name
        self._task_timeout = orders.settings.task_timeout
        self._alive = alive
        self.task, self.tasks, self.shifts = "", 0, 0
        alive.add(self)

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def introduced(self) -> None:
        told: Any = ("unfit", "it did not come up")
        with suppress(EOFError, OSError):
            if self._pipe.poll(START_SECONDS):
                told = self._pipe.recv()
        if told[0] != "ready":
            raise JudgeError(f"a worker of the trusting bench did not come up: {told[1]}; {self._last_words()}".rstrip("; "))

    def converse(self, shift: _Shift, profiled: bool) -> Trouble | None:
        """Have it judge; None when all is said, else what ended it."""
        if shift.task.id != self.task:
            self.task, self.tasks, self.shifts = shift.task.id, self.tasks + 1, 0
        self.shifts += 1
        try:
            self._pipe.send((shift.task, list(shift.group), profiled))
            while True:
                if not self._pipe.poll(max(shift.seconds_left(self._task_timeout), 0.0)):
                    return Trouble("timeout", self._under_way(shift), shift.stage)
                message = self._pipe.recv()
                if message[0] == "poisoned":
                    return Trouble("poisoned", message[1], shift.stage, message[2])
                if message[0] == "broken":
                    return Trouble("broken", message[1], shift.stage, {"trace": message[2]})
                if shift.heard(message):
                    return None
        except (EOFError, OSError):
            ended(self._process, 5)
            return Trouble("died", self._under_way(shift), shift.stage, ending=self._ending())

    def end(self) -> None:
        self._alive.discard(self)
        with suppress(ValueError, OSError):
            if ended(self._process, 0) is None:
                self._process.kill()
            ended(self._process, 10)
        with suppress(OSError):
            self._pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _under_way(self, shift: _Shift) -> str:
        if shift.stage != "timing":
            return shift.candidate
        try:
            return (self._folder / UNDER_WAY).read_text().strip()
        except (OSError, ValueError):
            return ""

    def _ending(self) -> dict[str, Any]:
        code = ended(self._process, 0)
        number = -code if code is not None and code < 0 else None
        known = number is not None and number in {int(one) for one in signal.Signals}
        return {"signal": number if known else None, "code": None if number else code, "output": self._last_words()}

    def _last_words(self) -> str:
        try:
            return (self._folder / LOG).read_text(errors="replace")[-LAST_WORDS:].strip()
        except OSError:
            return ""


def _plain(settings: Settings) -> dict[str, Any]:
    rows = asdict(settings).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in rows if name != "device"}
