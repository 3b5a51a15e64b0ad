"""A/A: the same kernel against itself, many times. Every `faster` or `slower` is a false one, and shows how noisy the machine is.

    PYTHONPATH=src python3 benchmarks/same_kernel.py --device cuda --workers 4
    PYTHONPATH=src python3 benchmarks/same_kernel.py --device cuda --tasks layers --own-code --floor 0

`--tasks layers` takes the layers of `real_layers.py`, `--tasks FOLDER` the task files in a folder. `--own-code`: as drafts of the compiler are timed.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, Done, Job, Quick, Run, Workers, judge_all, launch, percentile, show, upper_bound, where
from pairs import TWIN_TASKS, builtin, twin
from real_layers import installed_layers

from bottega.core.task import Task
from bottega.core.verdict import Speedup
from bottega.judge.judge import Judge
from bottega.tasks.load import load_task

AIM = 0.02
SPOKEN = ("faster", "slower", "same", "ambiguous")


def main(
    device: Device = "cpu",
    count: Annotated[int, typer.Option(min=1, help="Verdicts in all, spread over the tasks.")] = 200,
    tasks: Annotated[
        str, typer.Option(help="Built-in tasks, separated by commas, `layers`, or a folder of task files.")
    ] = ",".join(TWIN_TASKS),
    workers: Workers = 1,
    quick: Quick = False,
    own_code: Annotated[bool, typer.Option("--own-code", help="Allow nothing for what hostile code could hide.")] = False,
    floor: Annotated[float | None, typer.Option(help="Relative widening of every interval; the device's if left out.")] = None,
) -> None:
    loaded = chosen(tasks, device)
    names = [task.name for task in loaded]
    jobs = [Job(task.name, task, twin(task)) for number, task in enumerate(loaded) for _ in range(number, count, len(loaded))]
    with Judge(device, workers=workers, quick=quick, own_code=own_code, noise_floor=floor) as judge:
        floor = judge.settings.floor
        run = judge_all(judge, jobs, Run())
    by_task = {name: summarise([done for done in run.done if done.job.group == name], floor) for name in names}
    overall = summarise(run.done, floor)
    columns = ("task", "verdicts", *SPOKEN, "other", "false", "point p1", "p50", "p99", "half width p50", "floor for 2 %")
    rows = [_row(name, found) for name, found in [*by_task.items(), ("all", overall)] if found["verdicts"]]
    false, timed = overall["false"], overall["timed"]
    remarks = [
        where(device),
        f"false verdicts: {false} of {timed} ({false / max(timed, 1):.1%}, below {upper_bound(false, timed):.1%} "
        f"with 95 % confidence; the aim is at most {AIM:.0%})",
        f"noise floor in use: {floor:.2%}; the smallest that would have kept false verdicts at 2 %: {overall['floor_98']:.2%}, "
        f"at 1 %: {overall['floor_99']:.2%}, at none: {overall['floor_100']:.2%}",
    ]
    mode = f"{'quick' if quick else 'full'}{', own code' if own_code else ''}"
    show(f"the same kernel against itself, {mode}, on {device}", columns, rows, remarks)


def chosen(tasks: str, device: str) -> list[Task]:
    if tasks == "layers":
        return [layer.task() for layer in installed_layers()]
    if Path(tasks).is_dir():
        return [load_task(str(path)) for path in sorted(Path(tasks).rglob("*.py"))]
    return [builtin(name.strip(), device) for name in tasks.split(",") if name.strip()]


def summarise(done: list[Done], floor: float) -> dict[str, Any]:
    outcomes = Counter(each.word for each in done)
    speedups = [each.verdict.speedup["eager"] for each in done if each.verdict and "eager" in each.verdict.speedup]
    points = [speedup.point for speedup in speedups]
    needed = [needed_floor(speedup, floor) for speedup in speedups]
    return {
        "verdicts": len(done),
        "timed": len(speedups),
        "outcomes": dict(outcomes),
        "false": outcomes["faster"] + outcomes["slower"],
        "point": {str(share): percentile(points, share) for share in (0.0, 0.01, 0.05, 0.5, 0.95, 0.99, 1.0)},
        "half_width_p50": percentile([math.log(s.high / s.low) / 2 for s in speedups if s.low > 0], 0.5),
        "floor_98": percentile(needed, 0.98),
        "floor_99": percentile(needed, 0.99),
        "floor_100": percentile(needed, 1.0),
    }


def needed_floor(speedup: Speedup, floor: float) -> float:
    """By how much the bare interval must be widened to hold one. The interval was widened by `floor` already."""
    low = math.log(speedup.low) + floor if speedup.low > 0 else -math.inf
    high = math.log(speedup.high) - floor
    return max(0.0, low, -high)


def _row(name: str, found: dict[str, Any]) -> list[str]:
    outcomes, point = found["outcomes"], found["point"]
    other = found["verdicts"] - sum(outcomes.get(word, 0) for word in SPOKEN)
    return [
        name,
        str(found["verdicts"]),
        *(str(outcomes.get(word, 0)) for word in SPOKEN),
        str(other),
        f"{found['false'] / max(found['timed'], 1):.1%}",
        *(f"{point[share]:.4f}" for share in ("0.01", "0.5", "0.99")),
        f"{found['half_width_p50']:.2%}",
        f"{found['floor_98']:.2%}",
    ]


if __name__ == "__main__":
    launch(main)
