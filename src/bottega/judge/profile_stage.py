"""The profile stage of an evaluation, for a verdict that asks for it: counts and single launches, after all timed rounds.

Nothing of it is part of the decision. What comes from the candidate's process is checked for its form when it is read (`judge/profile.py`).
"""

from __future__ import annotations

import time
from functools import cache
from statistics import median
from typing import Any

import torch

from bottega.core.errors import SandboxError
from bottega.judge.coverage_stage import PROFILED_CALLS
from bottega.judge.evaluation_run import EvaluationRun
from bottega.judge.worker_link import RunnerFailed

CPU_CALLS = 5
PRODUCT = 1024
"""Rows and columns of the product whose rate stands for what the device can compute."""
ROUNDS = 5
COUNTING_SECONDS = 20.0


def measure_profile(run: EvaluationRun) -> dict[str, Any]:
    """Empty where the candidate's process fails at it, or there is no memory left for it: its outputs and times are judged already, and this is
    no part of them."""
    try:
        return _measured(run)
    except (torch.OutOfMemoryError, SandboxError):
        return {}
    except RunnerFailed as failure:
        if failure.kind == "forged":
            raise
        return {}


def _measured(run: EvaluationRun) -> dict[str, Any]:
    device, end = run.context.device, run.budget.end
    options = run.options(timed=device == "cpu")
    found: dict[str, Any] = {"operations": _operations(run), "peak_operations": product_rate(device)}
    if device == "cpu":
        run.runner.control.count_start()
        # Over the time of its first thread, which works along: a machine that others use too must not make threads look idle.
        records = [run.runner.run_call(run.context.draw(), options, sampled=True) for _ in range(CPU_CALLS)]
        found["counters"] = {name: count / CPU_CALLS for name, count in run.runner.control.count_stop().items()}
        found["threads"] = median((record.ran_ns + record.others_ns) / max(1, record.ran_ns) for record in records)
        found["instructions"] = run.runner.ask({"do": "profile", "calls": 0}, end).get("instructions")
    else:
        run.runner.run_call(run.context.draw(), options)
        reply = run.runner.ask({"do": "profile", "calls": PROFILED_CALLS, "launches": True}, end)
        found["launches"], found["gaps_us"] = reply.get("launches"), reply.get("gaps_us")
        found |= _counted(run)
    return found


def _counted(run: EvaluationRun) -> dict[str, Any]:
    """Hardware counters of a GPU. They come last: a process that dies or hangs over them keeps the rest of its profile."""
    deadline = min(run.budget.end, time.monotonic() + COUNTING_SECONDS)
    try:
        reply = run.runner.ask({"do": "profile", "calls": 1, "counters": True}, deadline)
    except RunnerFailed as failure:
        if failure.kind == "forged":
            raise
        return {"not_counted": f"the process ended over it: {failure.kind}"}
    return {"counters": reply.get("counters"), "not_counted": reply.get("missing")}


def _operations(run: EvaluationRun) -> int:
    """Floating-point operations of products, convolutions and attention in the module as it is; 0 where there are none."""
    baseline = run.context.baselines["eager"]
    try:
        baseline.run_call(run.context.draw(), run.options(timed=False))
        count = baseline.ask({"do": "operations"}, run.budget.end).get("operations")
    except RunnerFailed:
        return 0
    return count if isinstance(count, int) and 0 <= count < 10**18 else 0


@cache
def product_rate(device: str) -> float:
    """Operations a second of a plain fp32 product, the best of some rounds: the roof beside that of memory."""
    one = torch.randn(PRODUCT, PRODUCT, device=device)
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        torch.mm(one, one)
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return 2 * PRODUCT**3 / best
