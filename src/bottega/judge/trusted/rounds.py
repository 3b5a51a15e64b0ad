"""All correct candidates of a task timed together: in every round each runner makes one call, eager among them, in alternating order.

One lease and one measurement of eager serve them all, and drift affects all alike. The statistics are the judge's. Runners share a process, so
there is one clock: device events on a GPU, with cold caches and the launches hidden behind a busy device, and the host's clock on a CPU.
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
from bottega.judge.call_timer import CallTimer, DeviceTimer, HostTimer
from bottega.judge.device import CALL_HOLD_SECONDS, LAUNCHES_HIDDEN, LONGEST_HOLD_SECONDS, NOMINAL_CYCLES
from bottega.judge.failure import describe
from bottega.judge.inputs import InputSet
from bottega.judge.statistics import decided, interval, narrow
from bottega.judge.tensor_transport import unflatten
from bottega.judge.trusted.evaluation import TrustedEvaluation
from bottega.judge.trusted.runner import InProcessRunner
from bottega.judge.trusted.task import TrustedTask
from bottega.judge.worker_link import RunnerFailed

FEWEST, MOST = 8, 64
SECONDS_EACH = 0.05
"""Device time of a candidate beyond the fewest rounds."""
FLOOR_NS = 2000.0
"""What two modules of one process may differ by, whatever they run: the judge's 10 µs are for two processes and for what hostile code
could leave out."""
SHORTEST_HOLD = 0.3
"""Of the judge's own hold: where launches take less, the device need not be busy for so long to hide them."""


def time_together(
    task: TrustedTask, evaluations: Sequence[TrustedEvaluation], on_call: Callable[[str], None], count: int = 0
) -> None:
    """Write the timing of each candidate into its report. Call it with the device held alone. `on_call` gets the candidate of the next call,
    or an empty text for a baseline. `count`: so many rounds for all, to compare them with each other; 0 ends each once it is decided."""
    rounds = TrustedRounds(task, evaluations, on_call, count)
    gc.disable()
    try:
        rounds.run()
    finally:
        gc.enable()
    for evaluation in evaluations:
        if "failure" not in evaluation.report:
            evaluation.report["timing"] = rounds.timing(evaluation.candidate.id)


class TrustedRounds:
    def __init__(
        self, task: TrustedTask, evaluations: Sequence[TrustedEvaluation], on_call: Callable[[str], None], count: int = 0
    ) -> None:
        self.task, self.on_call, self.count = task, on_call, count
        self.evaluations = {each.candidate.id: each for each in evaluations}
        self.runners: dict[str, InProcessRunner] = dict(task.baselines)
        self.runners |= {each.candidate.id: each.runner for each in evaluations if each.runner is not None}
        self.times: dict[str, list[float]] = {name: [] for name in self.runners}
        self.copied = bool(task.profile.mutates)
        self.draws = [call.inputs for call in task.reference_calls("loaded") if call.failure is None][:2]
        self.hold_share = 1.0

    def run(self) -> None:
        self._warm_up()
        order = list(self.runners)
        secrets.SystemRandom().shuffle(order)
        begun, seconds, next_look = time.monotonic(), SECONDS_EACH * len(self.evaluations), FEWEST
        for number in range(self.count or MOST):
            order.reverse()  # A B C, C B A, …: drift affects all alike
            order = [name for name in order if name in self.runners]
            if len(order) == len(self.task.baselines):
                return
            self._round(order, self.draws[number % len(self.draws)])
            if number + 1 >= FEWEST and time.monotonic() - begun > seconds * (2 if self.count else 1):
                return
            if number + 1 == next_look and not self.count:
                next_look *= 2
                for name in [name for name in self.evaluations if name in self.runners]:
                    if all(self._is_enough(name, baseline) for baseline in self.task.settings.measured):
                        del self.runners[name]

    def timing(self, name: str) -> dict[str, Any]:
        found = {}
        for baseline in self.task.settings.measured:
            speedup = self._speedup(name, baseline)
            theirs, own = self._paired(name, baseline)
            found[baseline] = {
                "speedup": [speedup.point, speedup.low, speedup.high],
                "baseline_ms": median(theirs) / 1e6,
                "candidate_ms": median(own) / 1e6,
                "clock": "inner",
            }
        return found

    def _warm_up(self) -> None:
        """One call of each after its trials; it tells how long the host takes to enqueue it."""
        longest = 0.0
        for name in list(self.runners):
            begun = time.perf_counter()
            self._attempt(name, lambda runner: runner.call(self.draws[0], self.copied))
            longest = max(longest, time.perf_counter() - begun)
            self._attempt(name, lambda runner: runner.synchronize())
        most = LONGEST_HOLD_SECONDS / CALL_HOLD_SECONDS
        self.hold_share = min(most, max(SHORTEST_HOLD, LAUNCHES_HIDDEN * longest / CALL_HOLD_SECONDS))

    def _round(self, order: Sequence[str], inputs: InputSet) -> None:
        for name in order:
            timer = self._attempt(name, lambda runner: self._timed_call(runner, inputs))
            if timer is not None:
                self.times[name].append(float(max(timer.elapsed(), 1)))

    def _timed_call(self, runner: InProcessRunner, inputs: InputSet) -> CallTimer:
        timer: CallTimer = HostTimer() if runner.device == "cpu" else DeviceTimer()
        module, context = runner.module, runner.context
        tensors = [tensor.clone() for tensor in inputs.tensors] if self.copied else inputs.tensors
        arguments, keywords = unflatten(inputs.skeleton, tensors)
        with torch.no_grad(), context:
            self.task.control.flush_caches()
            if runner.device != "cpu":  # busy while the host enqueues the call
                torch.cuda._sleep(int(NOMINAL_CYCLES * self.hold_share))
            timer.start()
            result = module(*arguments, **keywords)
            timer.stop()
        runner.synchronize()
        del result
        return timer

    def _attempt(self, name: str, what: Callable[[InProcessRunner], Any]) -> Any:
        """A candidate that fails now is out. A baseline that does is no candidate's fault and ends the timing."""
        runner = self.runners.get(name)
        if runner is None:
            return None
        self.on_call("" if name in self.task.baselines else name)
        try:
            return what(runner)
        except Exception as error:
            if name in self.task.baselines or isinstance(error, torch.OutOfMemoryError):
                raise
            self.evaluations[name].fail(RunnerFailed("failure", describe("forward", error, runner.path)))
            del self.runners[name]
            return None

    def _paired(self, name: str, baseline: str) -> tuple[list[float], list[float]]:
        own = self.times[name]
        return self.times[baseline][: len(own)], own

    def _is_enough(self, name: str, baseline: str) -> bool:
        speedup = self._speedup(name, baseline)
        return decided(speedup) or narrow(speedup, 2 * self._floor(baseline))

    def _floor(self, baseline: str) -> float:
        return self.task.settings.floor + FLOOR_NS / median(self.times[baseline])

    def _speedup(self, name: str, baseline: str) -> Speedup:
        theirs, own = self._paired(name, baseline)
        return interval(theirs, own, self._floor(baseline))
