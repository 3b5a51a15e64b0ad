"""The process that estimates how much memory tasks take, as the judge holds it: one for all tasks, with a fork for each, apart from all others.

Fake tensors initialise the device's driver, and no fork of a process that has done so can use the device. So neither the fork server
nor a controller may make any.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from bottega.core.errors import JudgeError, SandboxError
from bottega.judge.memory_need import GUESS, LARGEST_QUESTION, MemoryEstimate
from bottega.sandbox.channel import ChannelClosed, DeadlinePassed, ProtocolError
from bottega.sandbox.fork_server import ForkServer
from bottega.sandbox.forked_answers import ForkingSandbox
from bottega.sandbox.limits import Limits

ENTRY = "bottega.judge.memory_estimate:main"
PATIENCE_SECONDS = 25.0
"""More than an estimate takes, which has a limit of its own."""


class Estimator:
    """Use it from any thread; one estimate at a time. It never fails: who cannot be asked is replaced, and a guess serves meanwhile."""

    def __init__(self, server: ForkServer, limits: Limits, environment: dict[str, str]) -> None:
        self._server = server
        self._limits = limits
        self._environment = {**environment, "CUDA_VISIBLE_DEVICES": ""}
        self._lock = threading.Lock()
        self._sandbox: ForkingSandbox | None = None

    def estimate(self, source: str, training: bool | None) -> MemoryEstimate:
        with self._lock:
            try:
                return self._ask(source, training)
            except (ChannelClosed, DeadlinePassed, ProtocolError, SandboxError, JudgeError, OSError):
                self._end()
                return GUESS

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, source: str, training: bool | None) -> MemoryEstimate:
        if self._sandbox is None:
            self._sandbox = ForkingSandbox(
                self._server, ENTRY, limits=self._limits, largest=LARGEST_QUESTION, environment=self._environment
            )
        answer = self._sandbox.ask({"source": source, "training": training}, PATIENCE_SECONDS)
        if not self._sandbox.fit:
            self._end()
        return MemoryEstimate.from_json((answer.found or {}).get("estimate")) or GUESS

    def _end(self) -> None:
        if self._sandbox is not None:
            with suppress(JudgeError):
                self._sandbox.end()
        self._sandbox = None
