"""All search strategies on the same tasks at equal numbers of kernels, tokens and seconds, each against plain sampling (`parallel`).

    python benchmarks/strategies.py run builtin:star_relu builtin:swiglu --kernels 8 --out runs/strategies
    python benchmarks/strategies.py table runs/strategies

`run` is `bottega bench … strategy=X` for each X, with as many kernels for all; run again, it goes on. Each run judges for itself, so that its
seconds are its own, unless several run `--side-by-side`; for the table the same text has one verdict in all.
`table` reads the run directories. What counts of a task is what its user would keep: the surest kernel that was found within the budget if it is
surely faster than eager, else eager itself; the last column has the fastest right kernel, by the point. All have the same number of kernels at
most; tokens and seconds are cut at what plain sampling spent on that task. Who ends sooner has spent less.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bottega.bench.attempt import BenchAttempt
from bottega.bench.bootstrap import Draws, Estimate
from bottega.bench.run_directory import read_run
from bottega.bench.settings import BRANCHING, WIDE
from bottega.core.verdict import Verdict
from bottega.episodes.strategies import STRATEGIES

PLAIN = "parallel"
BUDGETS = ("kernels", "tokens", "seconds")
SCRIPT = Path(__file__).parent / "strategies_script.py"

app = typer.Typer(add_completion=False, help=__doc__)


def settings_for(strategy: str, kernels: int) -> list[str]:
    """So that a task gets this many kernels, which must be a multiple of four."""
    if kernels % 4:
        raise typer.BadParameter("a multiple of 4, so that every strategy can have as many")
    share = (2 if strategy in WIDE else 1) * (2 if strategy in BRANCHING else 1)
    return [f"strategy={strategy}", "samples=1", f"turns={kernels // share}", "width=2", "branch=2"]


@app.command()
def run(
    tasks: list[str],
    out: Annotated[Path, typer.Option(help="A folder for the runs, one each.")],
    backbone: Annotated[str, typer.Option(help="As for bench; the scripted model if left out.")] = f"scripted:{SCRIPT}",
    kernels: Annotated[int, typer.Option(help="Of each task and strategy.")] = 8,
    strategies: Annotated[str, typer.Option(help="By comma; all that there are if left out.")] = ",".join(STRATEGIES.names),
    device: str = "cpu",
    settings: Annotated[str, typer.Option(help="More of bench's key=value, by blanks.")] = "quick=true",
    side_by_side: Annotated[
        int, typer.Option(min=1, help="Strategies at a time; with more than one, seconds tell little.")
    ] = 1,
) -> None:
    def bench(strategy: str) -> int:
        command = [sys.executable, "-m", "bottega", "bench", *tasks, "--backbone", backbone, "--device", device]
        command += ["--out", str(out / strategy), *settings_for(strategy, kernels), *settings.split()]
        typer.echo(" ".join(command), err=True)
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(side_by_side) as pool:
        ended = dict(zip(strategies.split(","), pool.map(bench, strategies.split(","))))
    for strategy, code in ended.items():
        if code:
            typer.echo(f"{strategy}: ended with {code}; the same command goes on", err=True)
    table(out)


def kept_by(attempts: Sequence[BenchAttempt], budget: str, most: float) -> float:
    """What a user has within a budget: the speedup of the surest kernel, or 1."""
    best, low, spent = 1.0, 1.0, 0.0
    for attempt in attempts:
        spent += cost(attempt, budget)
        if spent > most * (1 + 1e-9):
            break
        verdict = attempt.verdict
        found = verdict.speedup.get(verdict.baseline) if verdict is not None and verdict.outcome.accepted else None
        if found is not None and found.low > low:
            best, low = found.point, found.low
    return best


def cost(attempt: BenchAttempt, budget: str) -> float:
    if budget == "kernels":
        return 1.0
    return float(attempt.prompt_tokens + attempt.output_tokens) if budget == "tokens" else attempt.seconds


def ordered(attempts: Sequence[BenchAttempt]) -> dict[str, list[BenchAttempt]]:
    """By task, in the order in which they were written."""
    found: dict[str, list[BenchAttempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: (attempt.sample, attempt.turn)):
        found.setdefault(attempt.task, []).append(attempt)
    return found


def with_same_verdicts(
    runs: Mapping[str, Mapping[str, list[BenchAttempt]]], order: Sequence[str]
) -> dict[str, dict[str, list[BenchAttempt]]]:
    """The same text with the verdict of the first run that has it, so that no noise of timing lies between two strategies."""
    known: dict[tuple[str, str], Verdict | None] = {}
    for name in order:
        for task, attempts in runs[name].items():
            for one in attempts:
                known.setdefault((task, one.candidate), one.verdict)
    return {
        name: {
            task: [replace(one, verdict=known[task, one.candidate]) if one.candidate else one for one in attempts]
            for task, attempts in by_task.items()
        }
        for name, by_task in runs.items()
    }


def compared(runs: Mapping[str, Mapping[str, Sequence[BenchAttempt]]], budget: str) -> dict[str, tuple[float, Estimate]]:
    """For each strategy the geometric mean of what is kept, and its paired ratio to plain sampling with the interval over tasks: those of both, so
    that a run which was cut off takes nothing from the others."""
    found = {}
    for name, by_task in runs.items():
        tasks = sorted(set(by_task) & set(runs[PLAIN]))
        if not tasks:
            continue
        most = {task: sum(cost(one, budget) for one in runs[PLAIN][task]) for task in tasks}
        kept, plain = (np.array([kept_by(of[task], budget, most[task]) for task in tasks]) for of in (by_task, runs[PLAIN]))
        found[name] = math.exp(float(np.mean(np.log(kept)))), Draws(len(tasks)).geometric_mean(kept / plain)
    return found


def fastest(attempts: Sequence[BenchAttempt]) -> float | None:
    """Of the right kernels, by the point and whatever eager's speed is: where a busy machine makes nothing sure, this still tells something."""
    verdicts = [one.verdict for one in attempts if one.verdict is not None and one.verdict.outcome.accepted]
    return max((one.speedup[one.baseline].point for one in verdicts if one.baseline in one.speedup), default=None)


def by_the_point(runs: Mapping[str, Mapping[str, Sequence[BenchAttempt]]], name: str) -> Estimate:
    pairs = [(fastest(runs[name][task]), fastest(runs[PLAIN][task])) for task in sorted(set(runs[name]) & set(runs[PLAIN]))]
    ratios = np.array([own / plain for own, plain in pairs if own and plain])
    return Draws(len(ratios)).geometric_mean(ratios) if len(ratios) else Estimate(None, None, None, 0)


def rows(runs: Mapping[str, Mapping[str, Sequence[BenchAttempt]]]) -> list[str]:
    """As Markdown."""
    found = {budget: compared(runs, budget) for budget in BUDGETS}
    lines = [
        "| strategy | tasks | right | kept at equal kernels | ratio to parallel | at equal tokens | at equal seconds | by the point |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by_task in runs.items():
        every, both = [attempt for attempts in by_task.values() for attempt in attempts], len(set(by_task) & set(runs[PLAIN]))
        if not both:
            continue
        right = sum(one.verdict is not None and one.verdict.outcome.accepted for one in every)
        estimates = [*(found[budget][name][1] for budget in BUDGETS), by_the_point(runs, name)]
        ratios = ["—" if name == PLAIN else _interval(one) for one in estimates]
        lines.append(
            f"| `{name}` | {both} | {right} of {len(every)} | {found['kernels'][name][0]:.2f} | {' | '.join(ratios)} |"
        )
    return lines


def _interval(ratio: Estimate) -> str:
    if ratio.point is None:
        return "—"
    return f"{ratio.point:.2f}" + (
        f" ({ratio.low:.2f} to {ratio.high:.2f})" if ratio.low is not None and ratio.high is not None else ""
    )


@app.command()
def table(out: Path) -> None:
    runs = {
        folder.name: ordered(read_run(folder).attempts) for folder in sorted(out.iterdir()) if (folder / "bench.json").exists()
    }
    for name in [name for name, by_task in runs.items() if not by_task]:
        typer.echo(f"{name}: has no kernel yet and is left out", err=True)
        del runs[name]
    if PLAIN not in runs:
        raise typer.BadParameter(f"{out}: holds no run of {PLAIN}, to which all others are compared")
    order = sorted(runs, key=lambda name: (name != PLAIN, name))
    runs = with_same_verdicts(runs, order)
    typer.echo("\n".join(rows({name: runs[name] for name in order})))
    spent = {
        name: {budget: round(sum(cost(one, budget) for of in runs[name].values() for one in of)) for budget in BUDGETS}
        for name in order
    }
    typer.echo(json.dumps(spent), err=True)


if __name__ == "__main__":
    app()
