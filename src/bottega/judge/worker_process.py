"""A fresh worker process for a candidate, as the judge starts and ends it."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import SandboxError
from bottega.judge.machine import Machine, end_sandboxes, holding_lease
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair
from bottega.sandbox.fork_server import Sandbox, SandboxExit

ENDING_SECONDS = 0.2
"""From a process's last message to its end, when it ends by itself."""
START_SECONDS = 60.0


@dataclass
class WorkerProcess:
    """A fresh process for a candidate, and the ends by which it is driven."""

    machine: Machine
    sandbox: Sandbox
    end: socket.socket

    @classmethod
    def start(
        cls, machine: Machine, entry: str = "bottega.judge.worker:main", descriptors: Sequence[int] = (), **options: Any
    ) -> WorkerProcess:
        """Start one and wait until it is ready, not beside a timer: on a CPU a starting process takes the timer's cores, on a GPU its
        context disturbs the timer. `options` are those of `ForkServer.spawn`."""
        if machine.device != "cpu":
            worker = cls._start(machine, entry, descriptors, options)
            with holding_lease(machine, "starting_or_stopping"):
                worker._initialise()
            return worker
        with holding_lease(machine, "shared"):
            worker = cls._start(machine, entry, descriptors, options)
            worker._initialise()
            return worker

    @classmethod
    def _start(cls, machine: Machine, entry: str, descriptors: Sequence[int], options: dict[str, Any]) -> WorkerProcess:
        ours, theirs = channel_pair()
        try:
            usual = {"arguments": {"device": machine.device}, "limits": machine.limits, "environment": machine.environment}
            sandbox = machine.server.spawn(entry, fds=[theirs.fileno(), *descriptors], **{**usual, **options})
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = cls(machine, sandbox, ours)
        worker._hear()
        return worker

    def _initialise(self) -> None:
        with suppress(ChannelClosed):  # then nothing is heard either
            Channel(self.end).send({"do": "initialise"})
        self._hear()

    def _hear(self) -> None:
        try:
            Channel(self.end).receive(time.monotonic() + START_SECONDS)
        except (ChannelClosed, DeadlinePassed, ProtocolError):
            self.end.close()
            ended = self.sandbox.wait(ENDING_SECONDS)
            self.sandbox.kill()
            self.sandbox.control.close()
            last = (ended.output if ended else "").strip().splitlines()[-1:]
            raise SandboxError(f"a process for a candidate did not come up: {' '.join(last) or 'no word from it'}") from None

    def stop(self, patience: float = 0.0, *, at_once: bool = False) -> SandboxExit | None:
        """How it ended, if it ended by itself, for which there is some patience; whatever is left of it is killed."""
        ended = self.sandbox.wait(patience)
        if ended is None:
            end_sandboxes(self.machine, [self.sandbox], at_once)
        self.end.close()
        self.sandbox.control.close()
        return ended
