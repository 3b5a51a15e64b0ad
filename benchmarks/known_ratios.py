"""Candidates whose speed is known by construction: how often the judge's interval holds the truth, and what it says of them.

Task and candidate run the same kernel, which passes the time before it computes a line: a dependent chain of integer
steps on a CPU, a number of clock cycles on a GPU. Only that number differs, so the speedup is the quotient of the two.

    PYTHONPATH=src python3 benchmarks/known_ratios.py --device cuda --workers 4
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from figure import Device, Done, Job, Quick, Run, Workers, judge_all, launch, percentile, show, where

from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

RATIOS = (0.8, 0.95, 1.0, 1.05, 1.25)
"""Time of the candidate over that of the baseline."""
STEPS = {"cpu": 2_000_000, "cuda": 2_000_000}
"""About four milliseconds of a CPU, about one of a GPU: beside it a launch and the line itself are next to nothing."""

CPP = '''
import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

static volatile uint64_t sink;

extern "C" void passing_time(const float* x, float* y, int64_t count, int64_t steps) {
  uint64_t state = 88172645463325252ull;
  for (int64_t i = 0; i < steps; ++i) {  // each step waits for the one before, and no formula skips ahead
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  sink = state;
  for (int64_t i = 0; i < count; ++i) y[i] = 2.f * x[i] + 1.f;
}
""")


class CLASS(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:  # the oracle's
            return 2 * x + 1
        y = torch.empty_like(x)
        library.passing_time(x, y, x.numel(), STEPS)
        return y
'''
CUDA = '''
import torch
from torch import nn

from bottega.runtime import cuda

kernels = cuda(r"""
extern "C" __global__ void passing_time(const float* x, float* y, int count, long long cycles) {
  const long long begun = clock64();
  while (clock64() - begun < cycles) {}
  for (int i = threadIdx.x; i < count; i += blockDim.x) y[i] = 2.f * x[i] + 1.f;
}
""")


class CLASS(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:  # the oracle's
            return 2 * x + 1
        y = torch.empty_like(x)
        kernels.passing_time(1, 256, x, y, x.numel(), STEPS)
        return y
'''
CONTRACT = """

def get_inputs():
    return [torch.randn(4096)]


def get_init_inputs():
    return []
"""


def main(
    device: Device = "cpu",
    count: Annotated[int, typer.Option(min=1, help="Verdicts for each ratio.")] = 40,
    workers: Workers = 1,
    quick: Quick = False,
) -> None:
    kind = device.partition(":")[0]
    steps = STEPS[kind]
    template = CPP if kind == "cpu" else CUDA
    task = Task(filled(template, "Model", steps) + CONTRACT, name="passing_time", origin="known ratios")
    jobs: list[Job] = []
    for _ in range(count):  # ratio by ratio in turn, so that a drift of the machine falls on all
        for ratio in RATIOS:
            mine = round(steps * ratio)
            candidate = candidate_from(filled(template, "ModelNew", mine), name=f"{ratio:g}")
            jobs.append(Job(f"{ratio:g}", task, candidate, truth=steps / mine))
    with Judge(device, workers=workers, quick=quick) as judge:
        run = judge_all(judge, jobs, Run())
    summary = {f"{ratio:g}": summarise([d for d in run.done if d.job.group == f"{ratio:g}"]) for ratio in RATIOS}
    columns = ("time", "true speedup", "verdicts", "held", "point p50", "off p50", "off worst", "interval p50", "outcomes")
    rows = [_row(name, found) for name, found in summary.items() if found["timed"]]
    timed, held = (sum(found[word] for found in summary.values()) for word in ("timed", "held"))
    rates = [found["baseline_ms"] for found in summary.values() if found["timed"]]
    remarks = [
        where(device),
        f"the interval held the truth in {held} of {timed} verdicts ({held / max(timed, 1):.1%}); "
        f"the baseline takes {percentile(rates, 0.5):.3g} ms",
    ]
    unjudged = [done for done in run.done if not (done.verdict and done.verdict.speedup)]
    if unjudged:
        remarks.append(f"without a time: {dict(Counter(done.word for done in unjudged))}")
    show(f"kernels of known speed, {'quick' if quick else 'full'}, on {device}", columns, rows, remarks)


def filled(template: str, name: str, steps: int) -> str:
    return template.replace("CLASS", name).replace("STEPS", str(steps))


def summarise(done: list[Done]) -> dict[str, Any]:
    timed = [(each.job.truth or 1.0, each.verdict) for each in done if each.verdict and "eager" in each.verdict.speedup]
    rows = [(truth, verdict.speedup["eager"]) for truth, verdict in timed]
    off = [speedup.point / truth - 1 for truth, speedup in rows]
    return {
        "truth": done[0].job.truth if done else None,
        "verdicts": len(done),
        "timed": len(rows),
        "held": sum(speedup.low <= truth <= speedup.high for truth, speedup in rows),
        "outcomes": dict(Counter(each.word for each in done)),
        "point_p50": percentile([speedup.point for _, speedup in rows], 0.5),
        "off_p50": percentile(off, 0.5),
        "off_worst": max(off, key=abs, default=0.0),
        "low_p50": percentile([speedup.low for _, speedup in rows], 0.5),
        "high_p50": percentile([speedup.high for _, speedup in rows], 0.5),
        "baseline_ms": percentile([verdict.times_ms["eager"] for _, verdict in timed], 0.5),
    }


def _row(name: str, found: dict[str, Any]) -> list[str]:
    return [
        name,
        f"{found['truth']:.4f}",
        str(found["verdicts"]),
        f"{found['held']} ({found['held'] / found['timed']:.0%})",
        f"{found['point_p50']:.4f}",
        f"{found['off_p50']:+.2%}",
        f"{found['off_worst']:+.2%}",
        f"{found['low_p50']:.3f} to {found['high_p50']:.3f}",
        ", ".join(f"{count} {word}" for word, count in found["outcomes"].items()),
    ]


if __name__ == "__main__":
    launch(main)
