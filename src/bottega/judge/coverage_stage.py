"""The coverage stage of an evaluation: how much of the candidate's time its own kernels take, by profiler or by sampling."""

from __future__ import annotations

import time
from typing import Any

from bottega.judge.call_options import CallOptions
from bottega.judge.coverage import Coverage, cpu_coverage, gpu_coverage, merge_samples
from bottega.judge.evaluation_run import EvaluationRun

PROFILED_CALLS = 5
SAMPLING_SECONDS = 0.2
SAMPLING_WINDOWS = 15
WINDOWS_WITHOUT_CLAIM = 3


def measure_coverage(run: EvaluationRun) -> Coverage:
    claimed = run.claimed
    options = run.options(timed=run.context.device == "cpu")
    if run.context.device != "cpu":
        run.runner.run_call(run.context.draw(), options)
        reply = run.runner.ask({"do": "profile", "calls": PROFILED_CALLS}, run.budget.end)
        return gpu_coverage(reply.get("kernels"), run.source, claimed)
    samples: dict[str, Any] = {"by_file": {}}
    coverage = cpu_coverage(samples, claimed)
    for _ in range(SAMPLING_WINDOWS if claimed else WINDOWS_WITHOUT_CLAIM):
        merge_samples(samples, _sample(run, options))
        coverage = cpu_coverage(samples, claimed)
        if (coverage.sure if claimed else coverage.share is not None) or "unavailable" in samples:
            break
    return coverage


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
