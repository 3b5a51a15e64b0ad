"""The coverage stage of an evaluation: how much of the candidate's time its own kernels take, by profiler or by sampling."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from bottega.judge.call_options import CallOptions
from bottega.judge.coverage import DECOY_BELOW, Coverage, cpu_coverage, gpu_coverage, merge_samples, works_beside_products
from bottega.judge.evaluation_run import EvaluationRun
from bottega.judge.runner import Runner
from bottega.judge.worker_link import RunnerFailed

PROFILED_CALLS = 5
SAMPLING_SECONDS = 0.2
SAMPLING_WINDOWS = 15
WINDOWS_WITHOUT_CLAIM = 3


def measure_coverage(run: EvaluationRun) -> Coverage:
    claimed = run.claimed
    options = run.options(timed=run.context.device == "cpu")
    if run.context.device != "cpu":
        run.runner.run_call(run.context.draw(), options)
        kernels = _profile(run.runner, run)
        coverage = gpu_coverage(kernels, run.source, claimed)
        if coverage.own and coverage.share is not None and coverage.share < DECOY_BELOW:
            return replace(
                coverage, beside_products=works_beside_products(kernels, run.source, _reference_profile(run, options))
            )
        return coverage
    samples: dict[str, Any] = {"by_file": {}}
    coverage = cpu_coverage(samples, claimed)
    for _ in range(SAMPLING_WINDOWS if claimed else WINDOWS_WITHOUT_CLAIM):
        merge_samples(samples, _sample(run, options))
        coverage = cpu_coverage(samples, claimed)
        if (coverage.sure if claimed else coverage.share is not None) or "unavailable" in samples:
            break
    return coverage


def _profile(runner: Runner, run: EvaluationRun) -> Any:
    return runner.ask({"do": "profile", "calls": PROFILED_CALLS}, run.budget.end).get("kernels")


def _reference_profile(run: EvaluationRun, options: CallOptions) -> Any:
    """Of a baseline; nothing where its process is lost, which is noticed at its next call."""
    baseline = next(iter(run.context.baselines.values()))
    try:
        baseline.run_call(run.context.draw(), options)
        return _profile(baseline, run)
    except RunnerFailed:
        return []


def _sample(run: EvaluationRun, options: CallOptions) -> dict[str, Any]:
    """Have the operating system sample the candidate's processes over some calls."""
    run.runner.control.sample_start()
    run.runner.control.sample_pause()  # only what happens inside a call counts
    begun = time.monotonic()
    for played in range(400):
        if played >= 3 and time.monotonic() - begun > SAMPLING_SECONDS:
            break
        run.runner.run_call(run.context.draw(), options, sampled=True)
    return run.runner.control.sample_stop()
