"""Baselines that are compiled beside everything else: while a task is measured and a candidate is built and tried, nobody waits for them.

It takes seconds to minutes, of which the device is used for a part that nobody can foresee. So it is done by whoever shares the device,
and gives way: when a timer waits, what compiles is stopped, the timer has the device alone, and then the compiling goes on. Runs in a
thread of the referee's, which holds a lease of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from bottega.judge.failure import bounded
from bottega.judge.lease import Lease
from bottega.judge.runner import Side, SideFailed

LOOK_SECONDS = 0.01
"""How soon it is seen that a timer waits."""
LAST_WORD_SECONDS = 10.0


class Compilation:
    """`sides` compile the module that the payload of the same name describes, each for at most so many `seconds` of its own."""

    def __init__(self, sides: Mapping[str, Side], payloads: Mapping[str, int], lease: Lease, seconds: float) -> None:
        self.sides = dict(sides)
        self.lease = lease
        self.seconds = seconds
        self._payloads = dict(payloads)
        self._waiting = dict(sides)
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
        for name, side in self.sides.items():
            self._guarded(name, partial(side.tell, {"do": "load"}, (self._payloads[name],)))
        end = time.monotonic() + self.seconds
        while self._waiting:
            for name, side in list(self._waiting.items()):
                if side.channel.has_unread():
                    self._guarded(name, partial(_hear, side))
                    self._waiting.pop(name, None)
            if time.monotonic() > end:
                for name in list(self._waiting):
                    self._fail(name, f"takes more than {self.seconds:g} s to compile")
            elif self._waiting and self.lease.wanted():
                end += self._give_way()
            elif self._waiting:
                time.sleep(LOOK_SECONDS)

    def _give_way(self) -> float:
        """Seconds for which they were stopped: those do not count."""
        begun = time.monotonic()
        for name, side in list(self._waiting.items()):
            self._guarded(name, partial(side.freeze, time.monotonic() + LAST_WORD_SECONDS))
        with self.lease.apart():
            pass
        for name, side in list(self._waiting.items()):
            self._guarded(name, side.thaw)
        return time.monotonic() - begun

    def _guarded(self, name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except SideFailed as failure:
            self._fail(name, told(failure, self.seconds))

    def _fail(self, name: str, reason: str) -> None:
        self._failed[name] = reason
        self._waiting.pop(name, None)
        self.sides[name].reins.kill()


def _hear(side: Side) -> None:
    deadline = time.monotonic() + LAST_WORD_SECONDS
    reply = side.listen(deadline)
    side.freeze(deadline)
    if "failure" in reply:
        raise SideFailed("failure", bounded(reply["failure"]))


def told(failure: SideFailed, seconds: float) -> str:
    """Why a compiled baseline cannot be used, as the end of a sentence about it."""
    if failure.kind == "timeout":
        return f"takes more than {seconds:g} s"
    if failure.kind == "failure":
        text = " ".join(str(failure.detail.get("text") or failure.text).split())
        return f"raises {failure.detail.get('type', 'an error')}: {text}"[:400]
    return "ends its process (out of memory, or a crash)"
