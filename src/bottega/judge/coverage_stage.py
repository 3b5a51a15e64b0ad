"""The coverage stage of an evaluation: how much of the candidate's time its own kernels take, by profiler or by sampling."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from statistics import median
from typing import Any

from bottega.judge.call_options import CallOptions
from bottega.judge.coverage import (
    DECOY_BELOW,
    Coverage,
    cpu_coverage,
    gpu_coverage,
    in_timed_calls,
    leaves_products_only,
    merge_samples,
    works_beside_products,
)
from bottega.judge.evaluation_run import EvaluationRun
from bottega.judge.worker_link import RunnerFailed
from bottega.sandbox.channel import Message

PROFILED_CALLS = 5
SAMPLING_SECONDS = 0.2
SAMPLING_WINDOWS, WINDOWS_BESIDE_PRODUCTS = 15, 75
"""The second where own kernels may do all that is beside products: of a few microseconds in calls of a tenth of a second, as they are on a busy
machine, fifteen windows of three calls have one or two samples, or none."""
SHARE_OF_THE_REST = 0.25
"""Of the candidate's time that is left, spent on looking for them."""
WINDOWS_WITHOUT_CLAIM = 3


def measure_coverage(run: EvaluationRun) -> Coverage:
    claimed = run.claimed
    options = run.options(timed=run.context.device == "cpu")
    if run.context.device != "cpu":
        run.runner.run_call(run.context.draw(), options)
        question = {"do": "profile", "calls": PROFILED_CALLS}
        kernels = run.runner.ask(question, run.budget.end).get("kernels")
        coverage = gpu_coverage(kernels, run.source, claimed)
        if coverage.own and coverage.share is not None and coverage.share < DECOY_BELOW:
            theirs = _of_reference(run, options, question).get("kernels")
            return replace(coverage, beside_products=works_beside_products(kernels, run.source, theirs))
        return coverage
    return _sampled_coverage(run, options)


def _sampled_coverage(run: EvaluationRun, options: CallOptions) -> Coverage:
    """Until the share is sure. Where only products are left to the library, until own code was seen at all."""
    samples: dict[str, Any] = {"by_file": {}}
    core_ns: list[int] = []
    coverage, claimed, beside = cpu_coverage(samples, run.claimed), run.claimed, False
    now = time.monotonic()
    latest = now + SHARE_OF_THE_REST * (run.budget.end - now)
    for window in range(WINDOWS_BESIDE_PRODUCTS if claimed else WINDOWS_WITHOUT_CLAIM):
        if window >= SAMPLING_WINDOWS and (not beside or time.monotonic() > latest):
            break
        merge_samples(samples, _sample(run, options, core_ns))
        coverage = cpu_coverage(samples, claimed)
        if "unavailable" in samples or (not claimed and coverage.share is not None):
            break
        if not claimed or not coverage.sure:
            continue
        if coverage.share is None or coverage.share >= DECOY_BELOW:
            break
        beside = beside or _leaves_products_only(run, options)
        if not beside or coverage.own:
            break
    coverage = replace(coverage, beside_products=beside and bool(coverage.own))
    return in_timed_calls(coverage, cpu_coverage(run.samples, claimed), median(core_ns), run.timed_core_ns)


def _leaves_products_only(run: EvaluationRun, options: CallOptions) -> bool:
    theirs = _of_reference(run, options, {"do": "operators"}).get("operators")
    try:
        mine = run.runner.ask({"do": "operators"}, run.budget.end).get("operators")
    except RunnerFailed as failure:
        if failure.kind != "failure":
            raise
        return False
    return leaves_products_only(mine, theirs)


def _of_reference(run: EvaluationRun, options: CallOptions, question: Message) -> Message:
    """What a baseline answers after a call; nothing where its process is lost, which is noticed at its next call."""
    baseline = next(iter(run.context.baselines.values()))
    try:
        with run.paused():
            baseline.run_call(run.context.draw(), options)
            return baseline.ask(question, run.budget.end)
    except RunnerFailed:
        return {}


def _sample(run: EvaluationRun, options: CallOptions, core_ns: list[int]) -> dict[str, Any]:
    """Have the operating system sample the candidate's processes over some calls, and add what each took on a core."""
    cores = len(os.sched_getaffinity(0))
    run.runner.control.sample_start()
    run.runner.control.sample_pause()  # only what happens inside a call counts
    begun = time.monotonic()
    for played in range(400):
        if played >= 3 and time.monotonic() - begun > SAMPLING_SECONDS:
            break
        with run.paused():
            inputs = run.context.draw()
        core_ns.append(run.runner.run_call(inputs, options, sampled=True).core_ns(cores))
    return run.runner.control.sample_stop()
