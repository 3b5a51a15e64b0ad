"""A session: an opened task with its controller and baseline processes, ready to evaluate one candidate after another.

Opening a task costs more than judging a candidate on it, so sessions are kept and reused; nothing in one depends on earlier candidates.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bottega.core.errors import JudgeError, SandboxError, TaskError
from bottega.core.task import Task
from bottega.judge.baseline_cache import BaselineCache, folder_name
from bottega.judge.build_cache import lend
from bottega.judge.cancellation import Cancellation
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.invalid_task import out_of_memory
from bottega.judge.machine import Machine, end_sandboxes
from bottega.judge.memory_admission import AdmittedTask, MemoryAdmission, ShortOfMemory
from bottega.judge.memory_need import MemoryEstimate
from bottega.judge.settings import Settings
from bottega.judge.worker_process import WorkerProcess
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair, payload_descriptor
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.fork_server import Sandbox, SandboxExit
from bottega.sandbox.libraries import libraries_of
from bottega.sandbox.limits import Limits

GRACE_SECONDS = 3.0
STOPPING_SECONDS = 5.0
OPENING_SECONDS = 60.0
"""What waiting for the device may add to a task's own time limit when it is opened."""
MOST_OF_A_FACT = 1e18
"""Bytes, and bytes a second."""
TASK_SHARE_SECONDS = 240.0
"""What the controller's own work on one candidate (oracle, waiting for the device) may take beyond the candidate's time."""


class TaskKilled(TaskError):
    """A process of the task ended by SIGKILL: by the task itself, or by whoever else may kill it."""


class TaskLost(JudgeError):
    """The supervisor of such a process is gone, which no task reaches."""


class Session:
    def __init__(
        self,
        machine: Machine,
        task: Task,
        settings: Settings,
        cancellation: Cancellation,
        admission: MemoryAdmission | None = None,
        alone: bool = False,
        on_admitted: Callable[[], None] = lambda: None,
    ):
        """With `admission`, memory of the device is claimed before it is touched; `alone` claims all of it."""
        self.machine = machine
        self.task = task
        self.settings = settings
        self.key = session_key(task, settings)
        self.facts: dict[str, Any] = {}
        self.sandboxes: list[Sandbox] = []
        self.leases: list[Lease] = []
        """The locks that the controller takes, to take them from it."""
        self.resting = False
        self.cache = BaselineCache(machine.cache if settings.compiled else "", folder_name(task, settings))
        self.last_used = time.monotonic()
        self.held_until = 0.0
        """Until then it is not closed for want of memory."""
        self.admission = admission
        self.admitted: AdmittedTask | None = None
        self.alone = alone
        self.on_admitted = on_admitted
        try:
            with cancellation.killing(self.kill):
                self._open(cancellation)
        except BaseException:
            self.close()
            raise

    def evaluate(self, worker: WorkerProcess, source: str, claimed: tuple[str, ...], settings: Settings) -> dict[str, Any]:
        """The controller's report about one candidate. Raises `JudgeError` when the controller itself is lost."""
        payload = payload_descriptor(pickle.dumps({"source": source, "claimed": claimed, "settings": settings}))
        archive = lend(self.machine.cache, self.task.id, source)
        lent, told = ([], {}) if archive is None else ([archive.descriptor], archive.message)
        self._wake()
        try:
            self._tell({"do": "evaluate", **told}, [payload, worker.end.fileno(), worker.sandbox.control.fileno(), *lent])
            compiling = settings.task_timeout if settings.compiled else 0.0
            reply = self._answer(settings.timeout + TASK_SHARE_SECONDS + compiling)
            if archive is not None:
                archive.take_back(reply.get("archive"))
        finally:
            os.close(payload)
            if archive is not None:
                archive.close()
            self._rest()
            self.last_used = time.monotonic()
        if "invalid" in reply:
            raise TaskError(f"{self.task.label}: {reply['invalid']}")
        evaluation = reply.get("evaluation")
        if not isinstance(evaluation, dict):
            raise JudgeError(
                f"{self.task.label}: the controller failed: {reply.get('broken', 'no report')}\n{reply.get('trace', '')}".strip()
            )
        return {**evaluation, "facts": self.facts}

    def fitness(self) -> dict[str, Any]:
        self._wake()
        try:
            self._tell({"do": "fitness"}, [])
            reply = self._answer(self.settings.task_timeout * (2 if self.settings.compiled else 1))
        finally:
            self._rest()
        if "fitness" not in reply:
            raise TaskError(f"{self.task.label}: {reply.get('invalid') or reply.get('broken')}")
        return dict(reply["fitness"])

    @property
    def usable(self) -> bool:
        return self.resting or bool(self.settings.compiled)

    def _rest(self) -> None:
        """Stop the controller until it is asked again, and let go of whatever lock it holds: threads of a task could keep the device from
        everybody, from the judge itself too. Not where baselines may still be compiled, which it looks after."""
        if not self.settings.compiled:
            self.resting = self._stop_controller(STOPPING_SECONDS)

    def _wake(self) -> None:
        """Continue it. One that is gone is noticed when it is asked."""
        if self.resting:
            self.resting = False
            with suppress(SandboxError):
                ProcessControl(self.sandboxes[0].control).thaw()

    def _stop_controller(self, patience_s: float = 0.0) -> bool:
        """Stop it, and take its locks from it. False: it is gone, or was ended since it could not be stopped. On a busy machine a thread may be
        inside the kernel for longer than one attempt waits."""
        stopped = False
        if self.sandboxes:
            control, deadline = ProcessControl(self.sandboxes[0].control), time.monotonic() + patience_s
            with suppress(SandboxError):
                while not (stopped := control.freeze()) and time.monotonic() < deadline:
                    pass
            if not stopped:
                self.sandboxes[0].kill()
        for lease in self.leases:
            lease.drop()
        return stopped

    def kill(self) -> None:
        """End its processes from another thread; whoever waits for their answer then has none."""
        for sandbox in list(self.sandboxes):
            sandbox.kill()
        for lease in list(self.leases):
            lease.drop()

    def close(self, *, at_once: bool = False) -> None:
        self._stop_controller()  # one that holds the device would be waited for
        try:
            end_sandboxes(self.machine, self.sandboxes, at_once)
        finally:
            if self.admitted is not None:
                self.admitted.claim.release()  # not before its processes are gone, and their memory with them
        for sandbox in self.sandboxes:
            sandbox.control.close()
        self.sandboxes = []
        for lease in self.leases:
            lease.close()
        self.leases = []
        self.cache.close()
        if hasattr(self, "channel"):
            self.channel.close()

    def _open(self, cancellation: Cancellation) -> None:
        names = ["eager", *self.settings.compiled]
        self.machine.server.import_for_children(libraries_of(self.task.source))
        self._claim(len(names))
        self.on_admitted()
        ends: list[socket.socket] = []
        ours, theirs = channel_pair()
        self.leases = [Lease(open_lease(self.machine.lease_name)) for _ in range(2)]  # for two that hold it apart
        leases = [descriptor for lease in self.leases for descriptor in lease.descriptors]
        try:
            self.channel = Channel(ours)
            self.sandboxes.append(self._spawn("bottega.judge.controller:main", [theirs.fileno(), *leases], trusted=True))
            payload = {"source": self.task.source, "settings": self.settings}
            passed: list[int] = [payload_descriptor(pickle.dumps(payload))]
            for _ in names:
                controller_end, worker_end = channel_pair()
                ends += [controller_end, worker_end]
                sandbox = self._spawn("bottega.judge.worker:main", [worker_end.fileno()])
                self.sandboxes.append(sandbox)
                passed += [controller_end.fileno(), sandbox.control.fileno()]
            self.channel.send({"do": "open", "baselines": names}, passed)
            os.close(passed[0])
        finally:
            theirs.close()
            for end in ends:
                end.close()
        cancellation.check()  # `kill` saw only those that were there; from here on it sees all
        reply = self._answer(self.settings.task_timeout + OPENING_SECONDS)
        if "held" in reply:
            raise JudgeError(
                f"{self.task.label}: others hold the device for longer than a task may take to come up; judge again"
            )
        if "opened" not in reply:
            raise self._refused(str(reply.get("invalid") or reply.get("broken") or "the task could not be brought up"))
        self._rest()
        if not _are_facts(reply.get("facts")):
            raise TaskError(f"{self.task.label}: its process says of itself what cannot be")
        self.facts = reply["facts"]
        if self.admission is not None and self.admitted is not None:
            self.admission.opened(self.admitted, self.facts)

    def _claim(self, baselines: int) -> None:
        """Claim memory for the task before anything of it is on the device. The wait counts against no time limit."""
        if self.admission is not None:
            self.admitted = self.admission.admit(self.task.label, self.key, self._estimate, baselines, self.alone)

    def _estimate(self) -> MemoryEstimate:
        return self.machine.estimator.estimate(self.task.source, self.settings.training)

    def _refused(self, text: str) -> TaskError:
        if self.admitted is not None and out_of_memory(text):
            return ShortOfMemory(f"{self.task.label}: {text}", self.admitted)
        ends = [ended for sandbox in self.sandboxes if (ended := sandbox.wait(0.1)) is not None and ended.reason != "memory"]
        killed = any(ended.reason == "lost" or ended.signal == signal.SIGKILL for ended in ends)
        return (TaskKilled if killed else TaskError)(f"{self.task.label}: {text}")

    def _spawn(self, entry: str, descriptors: list[int], *, trusted: bool = False) -> Sandbox:
        """A process that runs the task's code. Of what is kept between runs it sees its own task's folder, if any."""
        huge = Limits(
            memory_bytes=self.machine.limits.memory_bytes,
            scratch_bytes=self.machine.limits.scratch_bytes,
            processes=self.machine.limits.processes,
            file_bytes=1 << 42,
        )
        return self.machine.server.spawn(
            entry,
            fds=descriptors,
            arguments={"device": self.machine.device},
            limits=huge,
            environment={**self.machine.environment, **self.cache.environment},
            writable=[self.cache.path] if self.cache.path else [],
            trusted=trusted,
        )

    def _tell(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            self.channel.send(message, descriptors)
        except ChannelClosed:
            raise JudgeError(f"{self.task.label}: the process of the task was lost; judge again") from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            return self.channel.receive(time.monotonic() + seconds + GRACE_SECONDS)
        except DeadlinePassed:
            raise TaskError(
                f"{self.task.label}: the reference did not finish within {seconds:.0f} s; use smaller shapes"
            ) from None
        except (ChannelClosed, ProtocolError):
            ended = self.sandboxes[0].wait(1.0) if self.sandboxes else None
            if ended is not None and ended.reason == "lost":  # whoever supervises it: no task reaches that
                raise TaskLost(
                    f"{self.task.label}: something from outside ended the process of the task, as a system does that is out of memory; judge again"
                ) from None
            raise self._refused(_ending(ended)) from None


def _are_facts(told: Any) -> bool:
    """Whether these are facts to reckon with. The task's own code ran in the process that sent them."""
    names = ("input_bytes", "output_bytes", "parameter_bytes", "bytes_per_second")
    values = [told.get(name) for name in names] if isinstance(told, dict) else [None]
    return all(isinstance(value, int | float) and 0 <= value < MOST_OF_A_FACT for value in values)


def session_key(task: Task, settings: Settings) -> tuple[Any, ...]:
    return (task.id, settings.device, settings.precision, settings.training, settings.baselines)


def _ending(ended: SandboxExit | None) -> str:
    if ended is None:
        return "the process that runs the task was lost"
    if ended.reason == "memory":
        return "the task needs more memory than there is; use smaller shapes"
    if ended.signal:
        outside = ", unless the system did, as one does that is out of memory" if ended.signal == signal.SIGKILL else ""
        return f"the task kills its process (signal {ended.signal}){outside}"
    last = [line for line in ended.output.splitlines() if line.strip()][-1:]
    return f"the task ends its process (exit code {ended.code})" + (f": {last[0].strip()[:300]}" if last else "")
