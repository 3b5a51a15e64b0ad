"""How often the intervals of a benchmark hold the truth, on runs that are made up so that the truth is known. A few seconds.

python benchmarks/interval_coverage.py
"""

from __future__ import annotations

import argparse

import numpy as np

from bottega.bench.bootstrap import Draws, Estimate, Spread

TRUE_LOG, BETWEEN_TASKS, WITHIN_A_TASK = 0.2, 0.5, 0.1
"""Speedups are log-normal over tasks, and each is measured with an error of its own."""
TRUE_SHARE = 0.3
JUDGED = 2.5758
"""Standard deviations that the judge's interval reaches."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 30, 100])
    options = parser.parse_args()
    random = np.random.default_rng(5)
    for tasks in options.tasks:
        held = {"share": 0, "geometric mean": 0, "median": 0}
        for number in range(options.runs):
            draws = Draws(tasks, 500, number)
            measured = np.exp(random.normal(TRUE_LOG, BETWEEN_TASKS, tasks) + random.normal(0, WITHIN_A_TASK, tasks))
            reach = np.exp(JUDGED * WITHIN_A_TASK)
            spread = Spread.of(measured, measured / reach, measured * reach)
            held["share"] += holds(draws.share((random.random(tasks) < TRUE_SHARE).astype(float)), TRUE_SHARE)
            held["geometric mean"] += holds(draws.geometric_mean(measured, spread), float(np.exp(TRUE_LOG)))
            held["median"] += holds(draws.median(measured, spread), float(np.exp(TRUE_LOG)))
        told = ", ".join(f"{name} {count / options.runs:.1%}" for name, count in held.items())
        print(f"{tasks} tasks, {options.runs} runs, 95% intervals hold the truth: {told}")


def holds(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


if __name__ == "__main__":
    main()
