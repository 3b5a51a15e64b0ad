"""A worker process of the trusted mode as the judge holds it: one batch of candidates at a time, with a limit on each candidate's own time.

A worker for *foreign* kernels, which are not our own, may do and say anything: it has no lock of the device. It runs while the judge holds the
device for it, so that nothing is timed beside it, and is stopped or ended between batches.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import SandboxError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.device_lock import Lease, open_lease, private_lease
from bottega.judge.machine import Machine
from bottega.judge.settings import Settings
from bottega.judge.worker_process import WorkerProcess
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, Message, ProtocolError, payload_descriptor
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.limits import Limits

WAITING_SECONDS = 900.0
"""For the device; it counts against no candidate."""
TIMING_SECONDS = 120.0
ENDING_SECONDS, POLL_SECONDS = 5.0, 0.01
LONGEST_TOLD = 1e12
"""Seconds or milliseconds: no number of ours is as large, and one of hundreds of digits has no float."""
TIMED_BYTES = 64
"""Of the memory in which a worker notes the candidate whose call is timed."""

OnVerdict = Callable[[Candidate, Verdict], None]
OnProblem = Callable[[str], None]


@dataclass
class WorkerFailure:
    """What ended a worker, and at which candidate."""

    kind: str
    """`timeout`, `died`, `device broken`, or `error`: the last is a fault of ours."""
    candidate: str = ""
    """Empty while the task itself was opened."""
    stage: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    """What was found about the candidate before."""
    ending: dict[str, Any] = field(default_factory=dict)
    trace: str = ""


class TrustedBatch:
    """Some candidates of a task at one worker: what came of them so far."""

    def __init__(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        settings: Settings,
        on_verdict: OnVerdict,
        on_problem: OnProblem,
        rounds: int = 0,
    ) -> None:
        self.task, self.candidates, self.settings, self.rounds = task, candidates, settings, rounds
        self.invalid = False
        self.seconds: Counter[str] = Counter()
        self.candidate, self.stage, self._since = "", "importing", time.monotonic()
        self._on_verdict, self._on_problem = on_verdict, on_problem
        self._left = {one.id: one for one in candidates}
        self._used: Counter[str] = Counter()
        """Seconds of each candidate's own time."""
        self.latest = inf
        """When all of it must be done."""

    @property
    def left(self) -> list[Candidate]:
        """Candidates that are not done."""
        return list(self._left.values())

    def bound(self) -> None:
        """Set `latest`, for a worker whose messages are not trusted."""
        own = len(self.candidates) * self.settings.timeout
        self.latest = time.monotonic() + self.settings.task_timeout + own + TIMING_SECONDS

    def stood_still(self, seconds: float) -> None:
        self.latest += seconds
        self._since += seconds

    def deadline(self) -> float:
        """When the worker's next message is due."""
        return min(self.latest, self._due())

    def _due(self) -> float:
        if self.stage == "waiting":
            return self._since + WAITING_SECONDS
        if self.stage == "timing":
            return self._since + TIMING_SECONDS
        if not self.candidate:
            return self._since + self.settings.task_timeout
        return self._since + self.settings.timeout - self._used[self.candidate]

    def take(self, message: Message) -> None:
        """Take in what the worker reports."""
        now = time.monotonic()
        if self.candidate and self.stage != "waiting":
            self._used[self.candidate] += now - self._since  # type: ignore[assignment]
        self._since = now
        if "stage" in message:
            self.candidate, self.stage = message["candidate"], message["stage"]
        elif "verdict" in message:
            verdict = Verdict.from_json(message["verdict"])
            _must_be_seconds(verdict.times_ms)
            _must_be_seconds(verdict.stages_s)
            self.seconds.update({name: seconds for name, seconds in verdict.stages_s.items() if name != "total"})
            self._on_verdict(self._left.pop(message["candidate"]), verdict)
        elif "no_memory" in message:
            for name in [message["no_memory"]] if message["no_memory"] else list(self._left):
                del self._left[name]
                self._on_problem("the device's memory was full, and a kernel has no verdict; it is left to the next run")
        elif "invalid" in message:
            self.invalid = True
            first = self.candidates[0]
            verdict = Verdict(
                Outcome.INVALID_TASK, diagnosis=str(message["invalid"]), task_id=self.task.id, candidate_id=first.id
            )
            self._on_verdict(first, verdict)
        elif "done" in message:
            _must_be_seconds(message["done"])
            self.seconds.update(message["done"])


def _must_be_seconds(told: Any) -> None:
    for name, value in told.items():
        if not isinstance(name, str) or not isinstance(value, int | float) or not 0 <= value < LONGEST_TOLD:
            raise ValueError(f"{name} is no time")


class TrustedProcess:
    """One worker process. Raises `SandboxError` when it does not start."""

    def __init__(self, machine: Machine, settings: Settings, workers: int, cache: str, foreign: bool = False) -> None:
        """`cache`: a folder in which all workers share what compilers make."""
        self.task, self.tasks, self.batches = "", 0, 0
        self.foreign = foreign
        self._timed = os.memfd_create("timed", os.MFD_CLOEXEC)
        self._lease = Lease(open_lease(machine.lease_name))
        lease = private_lease() if foreign else open_lease(machine.lease_name)
        folders = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor", "BOTTEGA_BUILD_DIR": "build"}
        try:
            self._process = WorkerProcess.start(
                machine,
                "bottega.judge.trusted.worker:main",
                [*lease, self._timed],
                arguments={"settings": settings, "workers": workers, "foreign": foreign},
                limits=Limits(machine.limits.memory_bytes, machine.limits.scratch_bytes, machine.limits.processes, 1 << 42),
                environment={**machine.environment, **{name: f"{cache}/{part}" for name, part in folders.items()}},
                writable=[cache],
                trusted=True,
            )
        except BaseException:
            os.close(self._timed)
            self._lease.close()
            raise
        finally:
            for descriptor in lease:
                os.close(descriptor)
        self._channel = Channel(self._process.end, takes_descriptors=False)
        self._control = ProcessControl(self._process.sandbox.control)
        self._held = ExitStack()
        """What of the device is held for the worker."""

    def judge(self, batch: TrustedBatch, profiled: bool) -> WorkerFailure | None:
        """None when the whole batch is done, else what ended the worker."""
        if not self.foreign:
            return self._judged(batch, profiled)
        with self._device_held():
            batch.bound()
            try:
                return self._judged(batch, profiled)
            except (ProtocolError, LookupError, TypeError, ValueError, AttributeError):  # no message of the worker's own
                return WorkerFailure("died", self._candidate_of(batch), str(batch.stage))

    @property
    def rests(self) -> bool:
        """Whether it may stay until the next batch. A foreign one on a GPU may have left work there, which no stop reaches."""
        return not self.foreign or self._process.machine.device == "cpu"

    @contextmanager
    def _device_held(self) -> Iterator[None]:
        """Nobody times meanwhile; before and after it the worker stands still."""
        self._held.enter_context(self._lease.shared())
        try:
            self._continue()
            yield
        finally:
            self._stand_still()
            self._held.close()

    def _hold_alone(self, batch: TrustedBatch) -> None:
        """The worker is about to time, and nobody else may use the device then."""
        begun = time.monotonic()
        self._stand_still()
        self._held.close()
        self._held.enter_context(self._lease.exclusive())
        self._continue()
        batch.latest += time.monotonic() - begun

    def _let_timers_go_first(self, batch: TrustedBatch) -> None:
        """While a foreign worker imports and builds the task, before it has run any candidate, it stands still for whoever wants to time."""
        opening = self.foreign and self.tasks == self.batches == 1 and batch.stage == "importing"
        while opening and not self._channel.has_unread() and time.monotonic() < batch.deadline():
            if not self._lease.wanted():
                time.sleep(POLL_SECONDS)
                continue
            begun = time.monotonic()
            self._stand_still()
            with self._lease.released():
                pass
            self._continue()
            batch.stood_still(time.monotonic() - begun)

    def _continue(self) -> None:
        with suppress(SandboxError):  # one that is gone is noticed when it is asked
            self._control.thaw()

    def _stand_still(self) -> None:
        stopped = False
        with suppress(SandboxError):
            stopped = self._control.freeze()
        if not stopped:
            self._process.sandbox.kill()

    def _judged(self, batch: TrustedBatch, profiled: bool) -> WorkerFailure | None:
        if batch.task.id != self.task:
            self.task, self.tasks, self.batches = batch.task.id, self.tasks + 1, 0
        self.batches += 1
        payload = payload_descriptor(pickle.dumps((batch.task, list(batch.candidates), profiled, batch.rounds)))
        try:
            self._channel.send({"do": "judge"}, [payload])
            while True:
                self._let_timers_go_first(batch)
                message = self._channel.receive(batch.deadline())
                if "device_broken" in message:
                    report = {} if self.foreign else message["report"]
                    return WorkerFailure("device broken", message["device_broken"], batch.stage, report)
                if "error" in message:
                    return WorkerFailure("error", message["candidate"], batch.stage, trace=str(message["error"]))
                if "alone" in message and self.foreign:
                    self._hold_alone(batch)
                    self._channel.send({"do": "time"})
                    continue
                batch.take(message)
                if "done" in message:
                    return None
        except DeadlinePassed:
            return WorkerFailure("timeout", self._candidate_of(batch), batch.stage)
        except ChannelClosed:
            ended = self._process.sandbox.wait(ENDING_SECONDS)
            ending = {} if ended is None else asdict(ended)
            return WorkerFailure("died", self._candidate_of(batch), batch.stage, ending=ending)
        finally:
            os.close(payload)

    def stop(self) -> None:
        """At once: a worker that hangs may hold the device."""
        self._process.stop(at_once=True)
        self._lease.close()
        os.close(self._timed)

    def _candidate_of(self, batch: TrustedBatch) -> str:
        if batch.stage != "timing":
            return batch.candidate
        return os.pread(self._timed, TIMED_BYTES, 0).decode(errors="replace").strip()
