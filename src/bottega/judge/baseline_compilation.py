"""Compiles baselines in the background, while a task is profiled and a candidate is built and tried.

It takes seconds to minutes, and uses the device for an unknown part of that. So it shares the device: when a timer waits, the compiling workers
are frozen, the timer has the device alone, and then they go on. Runs in a thread of the controller, which holds a lease of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from bottega.judge.device_lock import Lease
from bottega.judge.failure import bounded
from bottega.judge.runner import Runner
from bottega.judge.worker_link import RunnerFailed

POLL_SECONDS = 0.01
"""How often it checks whether a timer waits."""
REPLY_SECONDS = 10.0


class BaselineCompilation:
    """`runners` compile the module that the payload of the same name describes, each for at most so many `seconds` of its own."""

    def __init__(self, runners: Mapping[str, Runner], payloads: Mapping[str, int], lease: Lease, seconds: float) -> None:
        self.runners = dict(runners)
        self.lease = lease
        self.seconds = seconds
        self._payloads = dict(payloads)
        self._waiting = dict(runners)
        self._failed: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="compilation", daemon=True)
        self._thread.start()

    def result(self) -> dict[str, str]:
        """Wait for all of them, without holding the device: why those that cannot be used cannot."""
        self._thread.join()
        return self._failed

    def _run(self) -> None:
        self.lease.enter()
        try:
            self._compile()
        finally:
            self.lease.leave()
            for descriptor in self._payloads.values():
                os.close(descriptor)

    def _compile(self) -> None:
        for name, runner in self.runners.items():
            self._guarded(name, partial(runner.tell, {"do": "load"}, (self._payloads[name],)))
        end = time.monotonic() + self.seconds
        while self._waiting:
            for name, runner in list(self._waiting.items()):
                if runner.channel.has_unread():
                    self._guarded(name, partial(_receive_reply, runner))
                    self._waiting.pop(name, None)
            if time.monotonic() > end:
                for name in list(self._waiting):
                    self._fail(name, f"takes more than {self.seconds:g} s to compile")
            elif self._waiting and self.lease.wanted():
                end += self._pause_for_timer()
            elif self._waiting:
                time.sleep(POLL_SECONDS)

    def _pause_for_timer(self) -> float:
        """Seconds for which they were stopped: those do not count."""
        begun = time.monotonic()
        for name, runner in list(self._waiting.items()):
            self._guarded(name, partial(runner.freeze, time.monotonic() + REPLY_SECONDS))
        with self.lease.released():
            pass
        for name, runner in list(self._waiting.items()):
            self._guarded(name, runner.thaw)
        return time.monotonic() - begun

    def _guarded(self, name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except RunnerFailed as failure:
            self._fail(name, failure_reason(failure, self.seconds))

    def _fail(self, name: str, reason: str) -> None:
        self._failed[name] = reason
        self._waiting.pop(name, None)
        self.runners[name].control.kill()


def _receive_reply(runner: Runner) -> None:
    deadline = time.monotonic() + REPLY_SECONDS
    reply = runner.listen(deadline)
    runner.freeze(deadline)
    if "failure" in reply:
        raise RunnerFailed("failure", bounded(reply["failure"]))


def failure_reason(failure: RunnerFailed, seconds: float) -> str:
    """Why a compiled baseline cannot be used, as the end of a sentence about it."""
    if failure.kind == "timeout":
        return f"takes more than {seconds:g} s"
    if failure.kind == "failure":
        text = " ".join(str(failure.detail.get("text") or failure.text).split())
        return f"raises {failure.detail.get('type', 'an error')}: {text}"[:400]
    return "ends its process (out of memory, or a crash)"
