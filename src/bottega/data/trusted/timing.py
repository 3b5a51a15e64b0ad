"""All right kernels of a task timed together: in every round each side runs once, eager among them, in alternating order.

One lease and one measurement of eager serve them all, and drift falls on all alike. The statistics are the judge's. Sides share
a process, so there is one clock: device events on a GPU, with cold caches and the launches hidden behind a busy device, and the host's
clock on a CPU.
"""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from bottega.core.verdict import Speedup
from bottega.data.trusted.examine import Examination, call
from bottega.data.trusted.room import TaskRoom
from bottega.data.trusted.side import OwnSide
from bottega.judge.device import CALL_HOLD_SECONDS, NOMINAL_CYCLES, DeviceCare
from bottega.judge.failure import describe
from bottega.judge.inputs import Drawn
from bottega.judge.layout import unflatten
from bottega.judge.runner import SideFailed
from bottega.judge.statistics import decided, interval, narrow
from bottega.judge.stopwatch import EventStopwatch, HostStopwatch, Stopwatch

FEWEST, MOST = 8, 64
SECONDS_EACH = 0.05
"""What a kernel may take of the device's time, beyond the fewest rounds."""
FLOOR_NS = 2000.0
"""What two modules of one process may differ by, whatever they run: the judge's 10 µs are for two processes and for what hostile code
could leave out."""
SHORTEST_HOLD = 0.3
"""Of the judge's own hold: where launches take less, the device need not be busy for so long to hide them."""


def time_together(room: TaskRoom, right: Sequence[Examination], under_way: Callable[[str], None]) -> None:
    """Write the timing of each kernel into what was found about it. Whoever calls this holds the device alone."""
    rounds = _Rounds(room, right, under_way)
    gc.disable()
    try:
        rounds.run()
    finally:
        gc.enable()
    for examination in right:
        if "failure" not in examination.found:
            examination.found["timing"] = rounds.timing(examination.candidate.id)


class _Rounds:
    def __init__(self, room: TaskRoom, right: Sequence[Examination], under_way: Callable[[str], None]) -> None:
        self.room, self.care, self.under_way = room, room.care, under_way
        self.examinations = {each.candidate.id: each for each in right}
        self.baselines = list(room.baselines)
        self.sides: dict[str, OwnSide] = dict(room.baselines)
        self.sides |= {each.candidate.id: each.side for each in right if each.side is not None}
        self.times: dict[str, list[float]] = {name: [] for name in self.sides}
        self.copied = bool(room.known.mutates)
        kept = room.draws("loaded")
        self.draws = [one.drawn for one in kept if one.failure is None][:2]
        self.hold = 1.0

    def run(self) -> None:
        self._warm_up()
        order = list(self.sides)
        secrets.SystemRandom().shuffle(order)
        begun, seconds, next_look = time.monotonic(), SECONDS_EACH * len(self.examinations), FEWEST
        for number in range(MOST):
            order.reverse()  # A B C, C B A, …: drift falls on all alike
            order = [name for name in order if name in self.sides]
            if len(order) == len(self.baselines):
                return
            self._round(order, self.draws[number % len(self.draws)])
            late = time.monotonic() - begun > seconds
            if number + 1 >= FEWEST and late:
                return
            if number + 1 == next_look:
                next_look *= 2
                for name in [name for name in self.examinations if name in self.sides]:
                    if all(self._enough(name, baseline) for baseline in self.room.settings.measured):
                        del self.sides[name]

    def timing(self, name: str) -> dict[str, Any]:
        found = {}
        for baseline in self.room.settings.measured:
            speedup = self._speedup(name, baseline)
            theirs, mine = self._paired(name, baseline)
            found[baseline] = {
                "speedup": [speedup.point, speedup.low, speedup.high],
                "baseline_ms": median(theirs) / 1e6,
                "candidate_ms": median(mine) / 1e6,
                "clock": "inner",
            }
        return found

    def _warm_up(self) -> None:
        """One call of each after its trials; it tells how long the host takes to enqueue it."""
        longest = 0.0
        for name in list(self.sides):
            begun = time.perf_counter()
            self._tried(name, lambda side: call(side, self.draws[0], self.copied))
            longest = max(longest, time.perf_counter() - begun)
            self._tried(name, lambda side: side.wait())
        self.hold = min(1.0, max(SHORTEST_HOLD, 2 * longest / CALL_HOLD_SECONDS))

    def _round(self, order: Sequence[str], drawn: Drawn) -> None:
        for name in order:
            watch = self._tried(name, lambda side: self._turn(side, drawn))
            if watch is not None:
                self.times[name].append(float(max(watch.elapsed(), 1)))

    def _turn(self, side: OwnSide, drawn: Drawn) -> Stopwatch:
        watch: Stopwatch = HostStopwatch() if side.device == "cpu" else EventStopwatch()
        module, context = side.module, side.context
        tensors = [tensor.clone() for tensor in drawn.tensors] if self.copied else drawn.tensors
        arguments, keywords = unflatten(drawn.skeleton, tensors)
        with torch.no_grad(), context:
            self.care.settle()
            hold(self.care, self.hold)
            watch.start()
            result = module(*arguments, **keywords)
            watch.stop()
        side.wait()
        del result
        return watch

    def _tried(self, name: str, what: Callable[[OwnSide], Any]) -> Any:
        """A kernel that fails now is out; a baseline that does is no kernel's fault and ends the timing."""
        side = self.sides.get(name)
        if side is None:
            return None
        self.under_way("" if name in self.baselines else name)
        try:
            return what(side)
        except Exception as error:
            if name in self.baselines or isinstance(error, torch.OutOfMemoryError):
                raise
            self.examinations[name].fail(SideFailed("failure", describe("forward", error, side.path)))
            del self.sides[name]
            return None

    def _paired(self, name: str, baseline: str) -> tuple[list[float], list[float]]:
        mine = self.times[name]
        return self.times[baseline][: len(mine)], mine

    def _enough(self, name: str, baseline: str) -> bool:
        speedup = self._speedup(name, baseline)
        return decided(speedup) or narrow(speedup, 2 * self._floor(baseline))

    def _floor(self, baseline: str) -> float:
        return self.room.settings.floor + FLOOR_NS / median(self.times[baseline])

    def _speedup(self, name: str, baseline: str) -> Speedup:
        theirs, mine = self._paired(name, baseline)
        return interval(theirs, mine, self._floor(baseline))


def hold(care: DeviceCare, share: float) -> None:
    if care.device != "cpu":
        torch.cuda._sleep(int(NOMINAL_CYCLES * share))
