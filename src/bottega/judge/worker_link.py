"""The controller's connection to one worker process: the message channel and the control of its sandbox.

Whatever keeps the worker from answering raises `RunnerFailed`; no other exception crosses this module.
"""

from __future__ import annotations

import time

from bottega.core.errors import SandboxError
from bottega.judge.failure import bounded
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, Message, ProtocolError
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.core_time import CoreTime

MOST_RUNS_WHILE_STOPPED = 2
"""On a busy machine a stopped thread was once seen to have run for some microseconds more. A candidate that works while it is stopped does so
in most calls."""


class RunnerFailed(Exception):
    """The worker did not do what it was asked. `kind` is `failure` (it raised), `timeout`, `died` or `forged`."""

    def __init__(self, kind: str, detail: Message | None = None, text: str = ""):
        super().__init__(kind)
        self.kind = kind
        self.detail = detail or {}
        self.text = text


class WorkerLink:
    def __init__(self, name: str, channel: Channel, control: ProcessControl, device: str):
        self.name = name
        self.channel = channel
        self.control = control
        self.device = device
        self.spent = CoreTime()
        """Core time between the last two stops."""
        self.ran_while_stopped = 0
        """How often one of its threads was found to have run while it was stopped."""
        self.used_ns = 0
        """Core time of all its life so far, its supervisor's included; counted on a CPU."""

    def ask(self, message: Message, deadline: float, descriptors: tuple[int, ...] = ()) -> Message:
        """Send a request and return the answer. The worker is thawed for it, and frozen again afterwards."""
        self.thaw()
        self._send(message, deadline, descriptors)
        reply = self.listen(deadline)
        self.freeze(deadline)
        if "failure" in reply:
            raise RunnerFailed("failure", bounded(reply["failure"]))
        return reply

    def tell(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Send a request to a worker that was never frozen; `listen` for its answer."""
        self._send(message, None, descriptors)

    def listen(self, deadline: float) -> Message:
        """The next message of the worker."""
        try:
            return self.channel.receive(deadline)
        except ChannelClosed:
            raise RunnerFailed("died") from None
        except DeadlinePassed:
            raise RunnerFailed("timeout") from None
        except ProtocolError as error:
            raise RunnerFailed("forged", text=f"the candidate's process sent {error}") from None

    def _send(self, message: Message, deadline: float | None, descriptors: tuple[int, ...] = ()) -> None:
        """Without a deadline only to a trusted worker, which reads its messages."""
        try:
            self.channel.send(message, descriptors, deadline)
        except ChannelClosed:
            raise RunnerFailed("died") from None
        except DeadlinePassed:
            raise RunnerFailed("timeout") from None

    def freeze(self, deadline: float, asked: bool = False) -> None:
        """Stop every thread. On a GPU one may still be inside the driver when this returns, which does no harm. `asked`: its supervisor was
        asked to already."""
        self.spent = CoreTime()
        try:
            while True:
                resting, asked = self.control.frozen() if asked else self.control.freeze(), False
                self.spent += self.control.spent
                self.used_ns += self.control.spent.whole
                if resting or self.device != "cpu":
                    return
                if time.monotonic() > deadline:
                    raise RunnerFailed("forged", text="the candidate's processes cannot be stopped")
        except SandboxError:
            raise RunnerFailed("died") from None

    def ask_to_freeze(self) -> None:
        try:
            self.control.ask_to_freeze()
        except SandboxError:
            raise RunnerFailed("died") from None

    def thaw(self) -> None:
        try:
            self.control.thaw()
        except SandboxError:
            raise RunnerFailed("died") from None

    def _check_stayed_stopped(self) -> None:
        """On a CPU: by the operating system's count, no thread ran since the worker was stopped."""
        try:
            if self.device == "cpu" and not self.control.still():
                self.ran_while_stopped += 1
        except SandboxError:
            raise RunnerFailed("died") from None
        if self.ran_while_stopped > MOST_RUNS_WHILE_STOPPED:
            raise RunnerFailed("forged", text="the candidate's processes ran while they were stopped")
