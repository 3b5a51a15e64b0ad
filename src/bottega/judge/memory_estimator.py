"""The process that estimates how much memory tasks take, as the judge holds it: one for all tasks, apart from all others.

Fake tensors initialise the device's driver, and no fork of a process that has done so can use the device. So neither the fork server
nor a controller may make any.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from contextlib import suppress

from bottega.core.errors import JudgeError, SandboxError
from bottega.judge.memory_need import GUESS, MemoryEstimate
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair, payload_descriptor
from bottega.sandbox.fork_server import ForkServer, Sandbox
from bottega.sandbox.limits import Limits

PATIENCE_SECONDS = 40.0
"""More than an estimate takes, which has a limit of its own, and the process to come up."""


class Estimator:
    """Use it from any thread; one estimate at a time. It never fails: who cannot be asked is replaced, and a guess serves meanwhile."""

    def __init__(self, server: ForkServer, limits: Limits, environment: dict[str, str]) -> None:
        self._server = server
        self._limits = limits
        self._environment = {**environment, "CUDA_VISIBLE_DEVICES": ""}
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None
        self._channel: Channel | None = None

    def estimate(self, source: str, training: bool | None) -> MemoryEstimate:
        with self._lock:
            try:
                return self._ask(source, training)
            except (ChannelClosed, DeadlinePassed, ProtocolError, SandboxError, JudgeError):
                self._end()
                return GUESS

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, source: str, training: bool | None) -> MemoryEstimate:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        payload = payload_descriptor(pickle.dumps({"source": source, "training": training}))
        try:
            self._channel.send({"do": "estimate"}, [payload])
        finally:
            os.close(payload)
        reply = self._channel.receive(time.monotonic() + PATIENCE_SECONDS)
        return MemoryEstimate.from_json(reply.get("estimate")) or GUESS

    def _start(self) -> None:
        ours, theirs = channel_pair()
        try:
            self._sandbox = self._server.spawn(
                "bottega.judge.memory_estimate:main", fds=[theirs.fileno()], limits=self._limits, environment=self._environment
            )
        finally:
            theirs.close()
        self._channel = Channel(ours, takes_descriptors=False)

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._sandbox is not None:
            with suppress(JudgeError):
                self._sandbox.kill()
            self._sandbox.control.close()
        self._sandbox = self._channel = None
