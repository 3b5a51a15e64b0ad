"""A task that is up and running: its referee and its baselines, ready to examine one candidate after another.

Bringing a task up costs more than judging a candidate on it, so sessions are kept and used again; nothing in one
depends on the candidates it has seen.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import JudgeError, SandboxError, TaskError
from bottega.core.task import Task
from bottega.judge.admission import Admission, Admitted, ShortOfMemory
from bottega.judge.baseline_cache import BaselineCache, folder_name
from bottega.judge.invalid import out_of_memory
from bottega.judge.lease import open_lease
from bottega.judge.machine import Machine, end_cells, using
from bottega.judge.memory_need import Estimate
from bottega.judge.settings import Settings
from bottega.sandbox.fork_server import Cell, CellExit
from bottega.sandbox.limits import Limits
from bottega.sandbox.wire import Channel, DeadlinePassed, Departed, ProtocolBroken, channel_pair, payload_descriptor

ENDING_SECONDS = 0.2
"""From a process's last word to its end, when it ends by itself."""
GRACE_SECONDS = 3.0
OPENING_SECONDS = 60.0
"""What waiting for the device may add to a task's own time when it is brought up."""
START_SECONDS = 60.0
TASK_SHARE_SECONDS = 240.0
"""What the referee's own work on one candidate (oracle, waiting for the device) may take beyond the candidate's time."""


@dataclass
class Player:
    """A fresh process for a candidate, and the ends by which it is driven."""

    machine: Machine
    cell: Cell
    end: socket.socket

    @classmethod
    def start(cls, machine: Machine) -> Player:
        """Start one and wait until it is ready. On a CPU a process that comes up takes the timer's cores, on a GPU its context disturbs
        the timer: so it does not do so beside one."""
        if machine.device != "cpu":
            player = cls._start(machine)
            with using(machine, "coming_or_going"):
                player._wake()
            return player
        with using(machine, "shared"):
            player = cls._start(machine)
            player._wake()
            return player

    @classmethod
    def _start(cls, machine: Machine) -> Player:
        ours, theirs = channel_pair()
        try:
            cell = machine.server.spawn(
                "bottega.judge.worker:main",
                fds=[theirs.fileno()],
                arguments={"device": machine.device},
                limits=machine.limits,
                environment=machine.environment,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        player = cls(machine, cell, ours)
        player._hear()
        return player

    def _wake(self) -> None:
        with suppress(Departed):  # then nothing is heard either
            Channel(self.end).send({"do": "wake"})
        self._hear()

    def _hear(self) -> None:
        try:
            Channel(self.end).receive(time.monotonic() + START_SECONDS)
        except (Departed, DeadlinePassed, ProtocolBroken):
            self.end.close()
            ended = self.cell.wait(ENDING_SECONDS)
            self.cell.kill()
            self.cell.reins.close()
            last = (ended.output if ended else "").strip().splitlines()[-1:]
            raise SandboxError(f"a process for a candidate did not come up: {' '.join(last) or 'no word from it'}") from None

    def stop(self, patience: float = 0.0, *, at_once: bool = False) -> CellExit | None:
        """How it ended, if it ended by itself, for which there is some patience; whatever is left of it is killed."""
        ended = self.cell.wait(patience)
        if ended is None:
            end_cells(self.machine, [self.cell], at_once)
        self.end.close()
        self.cell.reins.close()
        return ended


class Session:
    def __init__(
        self, machine: Machine, task: Task, settings: Settings, admission: Admission | None = None, alone: bool = False
    ):
        """With `admission`, memory of the device is claimed before it is touched; `alone` claims all of it."""
        self.machine = machine
        self.task = task
        self.settings = settings
        self.key = session_key(task, settings)
        self.facts: dict[str, Any] = {}
        self.cells: list[Cell] = []
        self.cache = BaselineCache(machine.cache if settings.compiled else "", folder_name(task, settings))
        self.last_used = time.monotonic()
        self.held_until = 0.0
        """Until then it is not closed for want of memory."""
        self.admission = admission
        self.admitted: Admitted | None = None
        self.alone = alone
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def examine(self, player: Player, source: str, language: str, settings: Settings) -> dict[str, Any]:
        """The referee's report about one candidate. Raises `JudgeError` when the referee itself is lost."""
        payload = payload_descriptor(pickle.dumps({"source": source, "language": language, "settings": settings}))
        try:
            self._tell({"do": "examine"}, [payload, player.end.fileno(), player.cell.reins.fileno()])
            compiling = settings.task_timeout if settings.compiled else 0.0
            reply = self._answer(settings.timeout + TASK_SHARE_SECONDS + compiling)
        finally:
            os.close(payload)
            self.last_used = time.monotonic()
        if "invalid" in reply:
            raise TaskError(f"{self.task.label}: {reply['invalid']}")
        examination = reply.get("examination")
        if not isinstance(examination, dict):
            raise JudgeError(
                f"{self.task.label}: the referee failed: {reply.get('broken', 'no report')}\n{reply.get('trace', '')}".strip()
            )
        return examination

    def fitness(self) -> dict[str, Any]:
        self._tell({"do": "fitness"}, [])
        reply = self._answer(self.settings.task_timeout * (2 if self.settings.compiled else 1))
        if "fitness" not in reply:
            raise TaskError(f"{self.task.label}: {reply.get('invalid') or reply.get('broken')}")
        return dict(reply["fitness"])

    def close(self, *, at_once: bool = False) -> None:
        try:
            end_cells(self.machine, self.cells, at_once)
        finally:
            if self.admitted is not None:
                self.admitted.claim.release()  # not before its processes are gone, and their memory with them
        for cell in self.cells:
            cell.reins.close()
        self.cells = []
        self.cache.close()
        if hasattr(self, "channel"):
            self.channel.close()

    def _open(self) -> None:
        names = ["eager", *self.settings.compiled]
        self._claim(len(names))
        ends: list[socket.socket] = []
        ours, theirs = channel_pair()
        leases = [*open_lease(self.machine.lease_name), *open_lease(self.machine.lease_name)]  # for two that hold it apart
        try:
            self.channel = Channel(ours)
            shared = [self.machine.cache] if self.machine.cache else []
            self.cells.append(self._spawn("bottega.judge.controller:main", [theirs.fileno(), *leases], shared, trusted=True))
            passed: list[int] = [payload_descriptor(pickle.dumps({"source": self.task.source, "settings": self.settings}))]
            for _ in names:
                referee_end, player_end = channel_pair()
                ends += [referee_end, player_end]
                cell = self._spawn("bottega.judge.worker:main", [player_end.fileno()], [])
                self.cells.append(cell)
                passed += [referee_end.fileno(), cell.reins.fileno()]
            self.channel.send({"do": "open", "baselines": names}, passed)
            os.close(passed[0])
        finally:
            theirs.close()
            for end in ends:
                end.close()
            for descriptor in leases:
                os.close(descriptor)
        reply = self._answer(self.settings.task_timeout + OPENING_SECONDS)
        if "opened" not in reply:
            raise self._refused(str(reply.get("invalid") or reply.get("broken") or "the task could not be brought up"))
        self.facts = reply["facts"]
        if self.admission is not None and self.admitted is not None:
            self.admission.opened(self.admitted, self.facts)

    def _claim(self, baselines: int) -> None:
        """Have memory for the task before anything of it is on the device. The wait counts against nobody's time."""
        if self.admission is not None:
            self.admitted = self.admission.admit(self.task.label, self.key, self._estimate, baselines, self.alone)

    def _estimate(self) -> Estimate:
        return self.machine.estimator.estimate(self.task.source, self.settings.training)

    def _refused(self, text: str) -> TaskError:
        if self.admitted is not None and out_of_memory(text):
            return ShortOfMemory(f"{self.task.label}: {text}", self.admitted)
        return TaskError(f"{self.task.label}: {text}")

    def _spawn(self, entry: str, descriptors: list[int], writable: list[str], *, trusted: bool = False) -> Cell:
        huge = Limits(
            memory_bytes=self.machine.limits.memory_bytes,
            scratch_bytes=self.machine.limits.scratch_bytes,
            processes=self.machine.limits.processes,
            file_bytes=1 << 42,
        )
        return self.machine.server.spawn(
            entry,
            fds=descriptors,
            arguments={"device": self.machine.device, "cache": self.machine.cache},
            limits=huge,
            environment={**self.machine.environment, **self.cache.environment},
            writable=[*writable, *([self.cache.path] if self.cache.path else [])],
            trusted=trusted,
        )

    def _tell(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            self.channel.send(message, descriptors)
        except Departed:
            raise JudgeError(f"{self.task.label}: the process of the task was lost; judge again") from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            return self.channel.receive(time.monotonic() + seconds + GRACE_SECONDS)
        except DeadlinePassed:
            raise TaskError(
                f"{self.task.label}: the reference did not finish within {seconds:.0f} s; use smaller shapes"
            ) from None
        except (Departed, ProtocolBroken):
            ended = self.cells[0].wait(1.0) if self.cells else None
            raise self._refused(_ending(ended)) from None


def session_key(task: Task, settings: Settings) -> tuple[Any, ...]:
    return (task.id, settings.device, settings.precision, settings.training, settings.baselines)


def _ending(ended: CellExit | None) -> str:
    if ended is None:
        return "the process that runs the task was lost"
    if ended.reason == "memory":
        return "the task needs more memory than there is; use smaller shapes"
    if ended.signal:
        return f"the task kills its process (signal {ended.signal})"
    last = [line for line in ended.output.splitlines() if line.strip()][-1:]
    return f"the task ends its process (exit code {ended.code})" + (f": {last[0].strip()[:300]}" if last else "")
