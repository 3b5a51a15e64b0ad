"""Timed rounds: every runner once per round on the same fresh inputs, in alternating order, every output checked."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median

import torch

from bottega.core.verdict import Outcome
from bottega.judge.call_options import CallOptions
from bottega.judge.call_record import CallRecord
from bottega.judge.clocks import TimedPair, combine, floor_width, is_crowded
from bottega.judge.crowd import UNKNOWN, Crowd
from bottega.judge.inputs import InputSet
from bottega.judge.invalid_task import InvalidTask, out_of_memory
from bottega.judge.oracle import Oracle
from bottega.judge.runner import Runner
from bottega.judge.settings import Settings
from bottega.judge.statistics import decided, narrow, speed_outcome, told_apart
from bottega.judge.task_profile import TaskProfile
from bottega.judge.timed_outputs import TimedOutputs
from bottega.judge.trials import (
    OUTPUT_NOT_OWNED,
    OUTPUT_REUSED,
    call_violations,
    may_keep,
    may_overwrite,
)
from bottega.judge.variants import PARTS, chosen, planned
from bottega.judge.worker_link import RunnerFailed

KEEP_ONE_IN, LET_GO_ONE_IN = 4, 8
"""Rounds: so often a runner is told to keep what it returned, and so often it may let it go. No module knows before it has returned, nor for
how long: a module that rotates a few buffers would need one for every call."""
OVERWRITE_ONE_IN = 3
"""Rounds: so often the judge writes into what the candidate returned, and was not told to keep."""
LOOK_ONE_IN = 5
"""Rounds, beside one of the first few: so often it is seen whether the candidate's outputs are there when its call has returned."""
LARGE_FACTOR = 4
"""A round over gigabytes is mostly drawing and copying: in the time of a small one there would be no more than the fewest rounds."""
FAR, FAR_FACTOR = 0.1, 6
"""On a logarithmic scale, how far from 1 a ratio is worth more rounds while its interval holds 1; and so many times the usual seconds of them."""
SHARE_OF_THE_REST = 0.5
"""Of the candidate's time that is left, spent on rounds which are run again, or on more of them: calls of seconds would meet their time limit
there."""


class ReferenceRaises(InvalidTask):
    """It has no answer to some inputs, which then say nothing about a candidate."""


@dataclass
class Rounds:
    pairs: dict[str, list[TimedPair]] = field(default_factory=dict)
    problem: str = ""
    """A timed output that was wrong, in words."""
    violations: list[tuple[str, str]] = field(default_factory=list)
    settles: dict[str, list[int]] = field(default_factory=dict)
    """How long the controller's own preparation took, by the runner that was called just before."""


def run_rounds(
    draw: Callable[[str], InputSet],
    oracle: Oracle,
    baselines: dict[str, Runner],
    candidate: Runner,
    accepted: dict[str, list[tuple[float, float]]],
    *,
    settings: Settings,
    options: CallOptions,
    ahead: list[InputSet],
    profile: TaskProfile,
    exactly: int = 0,
) -> Rounds:
    """Run rounds until the interval is decided, the time is used up, or an output is wrong.

    Each takes one of the `accepted` variants at random, so that a timed call cannot be told from a test call; with each comes
    what the reference itself is off by on it. Contents that were drawn `ahead` are used up first. `exactly`: so many, whatever they show, as far
    as the candidate's time allows.
    """
    fewest, most = (exactly, 2 * exactly) if exactly else settings.rounds
    result = Rounds(pairs={name: [] for name in baselines})
    runners: dict[str, Runner] = {**baselines, "candidate": candidate}
    order = list(runners)
    secrets.SystemRandom().shuffle(order)
    cores = len(os.sched_getaffinity(0)) if candidate.device == "cpu" else 0
    begun = time.monotonic()
    latest = begun + SHARE_OF_THE_REST * (options.deadline() - begun) if exactly else math.inf
    previous = ""
    crowd = Crowd(runners.values()) if candidate.device == "cpu" else None
    seconds = settings.timing_seconds * (LARGE_FACTOR if profile.large else 1)
    ending = _Ending(settings, seconds, fewest, begun, options.deadline)
    sure, audited = secrets.randbelow(fewest), secrets.randbelow(fewest)
    inspection = TimedOutputs(oracle, next(iter(baselines.values())), candidate, options, settings.quick)
    plan = planned(accepted, fewest)
    for number in range(most):
        order.reverse()  # A B, B A, A B, …: drift falls on both alike
        with options.paused():
            inputs = ahead.pop() if ahead else draw(plan[number] if number < len(plan) else chosen(accepted))
        if inputs.variant not in accepted:
            continue
        keep = keeps_outputs(candidate, profile)
        looked = candidate.reads_memory and (number == sure or secrets.randbelow(LOOK_ONE_IN) == 0)
        this = _Round(runners, inputs, options, keep)
        try:
            for name in order:
                this.call(name, look=looked and name == "candidate")  # sampled then too: such a call is not timed
        except ReferenceRaises:
            if inputs.variant == "plain":
                raise
            accepted.pop(inputs.variant, None)  # its trial happened to be one of those that have an answer
            continue
        records = this.records
        for name in records:
            if previous:
                result.settles.setdefault(previous, []).append(records[name].settle_ns)
            previous = name
        mine, theirs = records["candidate"], records[next(iter(baselines))]
        with options.paused():
            found = call_violations(candidate, mine, inputs, options)
            result.violations += [each for each in found if each not in result.violations]
            whole = number >= audited and (inputs.variant in ("spiked", *PARTS) or "spiked" not in accepted)
            audited = most if whole else audited
            problem = inspection.problem(mine, theirs, inputs, accepted[inputs.variant], whole)
        if problem:
            result.problem = f"in timed call {number + 1}: {problem}"
            return result
        if reuses_outputs(result, candidate, mine, profile, options, keep):
            return result
        beside = crowd.permille() if crowd is not None else UNKNOWN
        for name in baselines if not looked else ():
            theirs = records[name]
            pair = TimedPair(
                baseline_outer=theirs.outer_ns,
                baseline_inner=theirs.inner_ns,
                candidate_outer=mine.outer_ns,
                candidate_inner=mine.inner_ns,
                baseline_delivery=theirs.delivery_ns,
                candidate_delivery=mine.delivery_ns,
                candidate_waited=mine.waited_ns,
                candidate_waited_delivery=mine.waited_delivery_ns + mine.waited_preparing_ns,
                candidate_ran=mine.ran_ns,
                baseline_beside=max(0, theirs.ran_ns - theirs.worked_ns),
                baseline_waited=theirs.waited_delivery_ns,
                baseline_worked=theirs.worked_ns,
                restrided=mine.restrided,
                held=theirs.held_ns,
                baseline_avoidable=theirs.avoidable_ns,
                baseline_ahead=theirs.ahead_ns,
                candidate_ahead=mine.ahead_ns,
                candidate_unseen=mine.unseen_ns,
                candidate_others=mine.others_ns,
                cores=cores,
                baseline_late=theirs.late_ns,
                baseline_enqueued=theirs.enqueued_ns,
                baseline_core=theirs.core_ns(cores),
                candidate_core=mine.core_ns(cores),
                crowd=beside,
            )
            result.pairs[name].append(pair)
        counted = min(map(len, result.pairs.values()))
        enough = counted >= exactly or (counted and time.monotonic() > latest) if exactly else ending.is_due(result.pairs)
        if enough:
            break
    return result


@dataclass
class _Ending:
    """When rounds end: where a look says that they are decided, or when their time is up. Looks are few, so that there are few chances to stop by
    luck. A ratio that is far from 1 and open when its time is up gets more."""

    settings: Settings
    seconds: float
    next_look: int
    begun: float
    deadline: Callable[[], float]
    """Of the candidate's time, of which a share is kept for what follows."""
    extended: bool = False
    until: float = 0.0

    def is_due(self, timed: dict[str, list[TimedPair]]) -> bool:
        counted = min(map(len, timed.values()))
        if counted < self.settings.rounds[0]:
            return False
        now = time.monotonic()
        if self.extended and now > self.until:
            return True
        if not self.extended and now - self.begun > self.seconds:
            self.extended, self.next_look = self._is_worth_more(timed), 2 * counted
            self.until = min(self.begun + FAR_FACTOR * self.seconds, now + SHARE_OF_THE_REST * (self.deadline() - now))
            return not self.extended
        if counted < self.next_look:
            return False
        self.next_look *= 2
        return all(_enough(pairs, self.settings) for pairs in timed.values()) or (
            self.extended and not self._is_worth_more(timed)
        )

    def _is_worth_more(self, timed: dict[str, list[TimedPair]]) -> bool:
        return any(_is_far_and_open(pairs, self.settings) for pairs in timed.values())


def keeps_outputs(candidate: Runner, profile: TaskProfile) -> bool:
    """Whether the candidate is told, when its call has returned, to keep what it returned."""
    return may_keep(profile) and not profile.large and candidate.retained is None and secrets.randbelow(KEEP_ONE_IN) == 0


def reuses_outputs(
    result: Rounds, candidate: Runner, mine: CallRecord, profile: TaskProfile, options: CallOptions, keep: bool
) -> bool:
    """Whether a later call has changed what was returned, or what was returned is not the candidate's own."""
    written = not keep and may_overwrite(candidate, profile) and secrets.randbelow(OVERWRITE_ONE_IN) == 0
    if written and (why := candidate.overwrite(mine, profile.aliased)):
        result.violations.append((OUTPUT_NOT_OWNED[0], OUTPUT_NOT_OWNED[1] + why))
        return True
    if not keep and candidate.retained is not None and (candidate.reads_memory or secrets.randbelow(2)):
        if candidate.retained_was_altered(mine.specs, options.strides, options.deadline()):
            result.violations.append(OUTPUT_REUSED)
            return True
        if secrets.randbelow(LET_GO_ONE_IN) == 0:
            candidate.retained = None  # another one next time
    return False


@dataclass
class _Round:
    """Every runner once on the same inputs. The first of them is a baseline."""

    runners: dict[str, Runner]
    inputs: InputSet
    options: CallOptions
    keep: bool
    records: dict[str, CallRecord] = field(default_factory=dict)

    def call(self, name: str, *, look: bool = False) -> None:
        if name not in self.records:
            wanted = self._expected if look else None
            runner, options = self.runners[name], self.options
            try:
                self.records[name] = timed_call(runner, self.inputs, options, keep=self.keep, look=wanted, sampled=look)
            except RunnerFailed as failure:
                if failure.kind == "failure" and name == "candidate":
                    self.call(next(iter(self.runners)))  # who raises where the reference does is not to blame
                raise

    def _expected(self) -> list[torch.Tensor]:
        """The outputs of the first baseline. If the candidate is called before it, it runs while the candidate is stopped in its call: a candidate
        that could only be looked at after the baseline would know, by the time that has passed, when nobody looks."""
        name, baseline = next(iter(self.runners.items()))
        try:
            self.call(name)
        except ReferenceRaises:
            return []  # said again when the candidate's call is over and the baseline's turn comes
        return baseline.output_views(self.records[name].specs)


def timed_call(
    runner: Runner,
    inputs: InputSet,
    options: CallOptions,
    keep: bool = False,
    look: Callable[[], Sequence[torch.Tensor]] | None = None,
    sampled: bool = False,
) -> CallRecord:
    """Raises `InvalidTask` for a baseline whose process is lost or does not stay stopped: not the candidate's fault, so the judge opens the task
    again. And `ReferenceRaises` for one that has no answer to these inputs."""
    try:
        with nullcontext() if runner.name == "candidate" else options.paused():
            return runner.run_call(inputs, options, sampled=sampled, keep=keep, look=look)
    except RunnerFailed as failure:
        if runner.name == "candidate":
            raise
        if failure.kind == "failure" and not out_of_memory(str(failure.detail.get("text", ""))):
            raise ReferenceRaises(f"the reference fails on some of its own inputs: {failure.detail.get('text')}") from None
        if failure.kind not in ("died", "forged"):
            raise
        raise InvalidTask(f"the {runner.name} baseline was lost in a timed call: {failure.text or failure.kind}") from None


def answer_of(baseline: Runner, inputs: InputSet, options: CallOptions) -> CallRecord | None:
    """A timed call of a baseline; None where it has no answer to these inputs."""
    try:
        return timed_call(baseline, inputs, options)
    except ReferenceRaises:
        return None


def _is_far_and_open(pairs: list[TimedPair], settings: Settings) -> bool:
    """Whether the ratio is far from 1, and nobody can say on which side: worth more time, but for a crowded machine, where more rounds tell no more.
    Asked as rarely as whether it is decided."""
    if is_crowded(pairs):
        return False
    timing = combine(pairs, settings.floor, settings.own_code)
    ratio = timing.baseline_ms / timing.candidate_ms  # the point itself may be held at 1 by what is not known yet
    return abs(math.log(ratio)) > FAR and speed_outcome(timing.speedup) is Outcome.AMBIGUOUS


def _enough(pairs: list[TimedPair], settings: Settings) -> bool:
    speedup = combine(pairs, settings.floor, settings.own_code).speedup
    if (
        settings.own_code
    ):  # a few in a hundred may be told, so an interval that holds 1 is only enough where more rounds would not narrow it
        return told_apart(speedup) or narrow(speedup, floor_width(pairs, settings.floor, True))
    return decided(speedup) or (settings.quick and narrow(speedup, floor_width(pairs, settings.floor)))


def left_behind(rounds: Rounds) -> str:
    """Whether the candidate leaves work on the device after its call: then the controller's own work right after it is slower."""
    after_candidate = rounds.settles.get("candidate", [])
    after_others = [time for name, times in rounds.settles.items() if name != "candidate" for time in times]
    if len(after_candidate) < 4 or len(after_others) < 4:
        return ""
    mine, theirs = median(after_candidate), median(after_others)
    if mine > 1.5 * theirs + 300_000:
        return f"the device is busy after the call has returned: {theirs / 1e6:.3g} ms of work take {mine / 1e6:.3g} ms then"
    return ""
