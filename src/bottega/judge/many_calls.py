"""The candidate called again and again, to use up what it may have prepared: more often than rounds with a baseline could.

A candidate can tell these calls by the clock. So they are timed, on fresh contents, and what is looked at is drawn when a call has returned.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from bottega.judge.call_options import CallOptions
from bottega.judge.input_variants import structure
from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.prepared_work import PreparedWork
from bottega.judge.rounds import Rounds, answer_of, keeps_outputs, reuses_outputs, timed_call
from bottega.judge.runner import Runner
from bottega.judge.settings import Settings
from bottega.judge.task_profile import TaskProfile
from bottega.judge.timed_outputs import TimedOutputs
from bottega.judge.trials import call_violations
from bottega.judge.variants import chosen
from bottega.judge.worker_link import RunnerFailed

COMPARED_ONE_IN, COMPARED_THEN_ONE_IN = 8, 2
"""Calls: while a stock may last, and once it is used up. Who has none left can hide that only by leaving the work out of all of these calls, and
they are few: of eight calls one in eight would miss a third of such kernels, one in two misses one of 256."""
CHEAP_BYTES, USES = 1 << 20, 8
"""To draw more takes longer than many calls. Then a draw serves so often, its rows moved on: to know them again, and to move an earlier output on
likewise, takes as long as what could have been prepared."""
LONGEST_SECONDS, SHARE_OF_THE_REST = 4.0, 0.25
"""Spent here at most, and of the candidate's time that is left: coverage comes after it."""


@dataclass
class ManyCalls:
    core_ns: list[int] = field(default_factory=list)
    """`CallRecord.core_ns`, call by call."""
    seen: Rounds = field(default_factory=Rounds)


def call_often(
    draw: Callable[[str], InputSet],
    oracle: Oracle,
    baseline: Runner,
    candidate: Runner,
    accepted: dict[str, list[tuple[float, float]]],
    *,
    settings: Settings,
    options: CallOptions,
    profile: TaskProfile,
    prepared: PreparedWork,
) -> ManyCalls:
    """As many calls as use up what may be `prepared`, as far as there is time, which may be for none; fewer where one shows a violation or a wrong
    output."""
    trusted, result = baseline, ManyCalls()
    inspection = TimedOutputs(oracle, trusted, candidate, options, settings.quick)
    # Where no other variant was accepted, the task may have no answer to rows in another order either.
    contents = _contents(draw, list(accepted), USES if profile.input_room > CHEAP_BYTES and len(accepted) > 1 else 1)
    cores, now = len(os.sched_getaffinity(0)), time.monotonic()
    latest = now + min(LONGEST_SECONDS, SHARE_OF_THE_REST * (options.deadline() - now))
    while len(result.core_ns) < prepared.calls_to_make and time.monotonic() < latest:
        inputs, keep = next(contents), keeps_outputs(candidate, profile)
        try:
            mine = timed_call(candidate, inputs, options, keep=keep)
        except RunnerFailed as failure:
            if failure.kind != "failure" or answer_of(trusted, inputs, options) is not None:
                raise
            continue
        result.seen.violations += call_violations(candidate, mine, inputs, options)
        if result.seen.violations:
            break
        lasting = len(result.core_ns) < prepared.calls
        if secrets.randbelow(COMPARED_ONE_IN if lasting else COMPARED_THEN_ONE_IN) == 0:
            theirs = answer_of(trusted, inputs, options)
            if theirs is None:
                continue
            with options.paused():
                problem = inspection.problem(mine, theirs, inputs, accepted[inputs.variant])
            if problem:
                result.seen.problem = f"in call {len(result.core_ns) + 1} of many: {problem}"
                break
        if reuses_outputs(result.seen, candidate, mine, profile, options, keep):
            break
        result.core_ns.append(mine.core_ns(cores))
    return result


def _contents(draw: Callable[[str], InputSet], variants: list[str], uses: int) -> Iterator[InputSet]:
    while True:
        drawn = draw("plain" if uses > 1 and "plain" in variants else chosen(variants))
        yield drawn
        free = [structure(tensor) == "free" for tensor in drawn.tensors] if uses > 1 else []
        for _ in range(uses - 1 if any(free) else 0):
            moved = [_moved_on(tensor) if each else tensor for tensor, each in zip(drawn.tensors, free)]
            yield InputSet(drawn.skeleton, moved, drawn.variant)


def _moved_on(tensor: torch.Tensor) -> torch.Tensor:
    axis = next(axis for axis, size in enumerate(tensor.shape) if size > 1)
    rows = tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor  # torch moves no floats of eight bits
    return rows.roll(1 + secrets.randbelow(tensor.shape[axis] - 1), axis).view(tensor.dtype)
