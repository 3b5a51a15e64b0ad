"""Of the kernels that are `faster` when judged alone: how many a run called `ambiguous`, since a model drew on the same device?

Takes the folder of a finished `bottega bench` run, judges its `ambiguous` kernels again under the run's own terms, one at a time and
with nothing else on the device, and prints the share; the aim is below 1 %. What the run called `faster` counts as faster alone;
`--faster N` judges so many of those again too, to see that it is so.

    bottega bench large_tasks --backbone embedded --device cuda quick=true --out run
    PYTHONPATH=src python3 benchmarks/shared_device.py run --device cuda --faster 20
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from figure import Device, launch, show, upper_bound, where

from bottega.bench.attempt import BenchAttempt, BenchRun
from bottega.bench.run_directory import read_kernel, read_run
from bottega.bench.settings import BenchJudgeSettings
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.judge import Judge

AIM = 0.01


@dataclass(frozen=True)
class Again:
    """One kernel of the run, judged alone."""

    task: str
    then: str
    now: str


def main(
    run: Annotated[Path, typer.Argument(help="The folder of a finished bench run.")],
    device: Device = "cpu",
    faster: Annotated[int, typer.Option(min=0, help="Kernels that the run called faster, to be judged again as well.")] = 0,
    most: Annotated[
        int, typer.Option(min=1, help="Ambiguous kernels to judge again, at most; drawn at random where there are more.")
    ] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further verdict after so long.")] = 480.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
) -> None:
    read = read_run(run)
    timed = [each for each in unique(read.attempts) if each.verdict and each.verdict.speedup]
    unsure, sure = (
        [each for each in timed if each.verdict and each.verdict.outcome is outcome]
        for outcome in (Outcome.AMBIGUOUS, Outcome.FASTER)
    )
    dice = random.Random(seed)
    asked = dice.sample(unsure, min(most, len(unsure))) + dice.sample(sure, min(faster, len(sure)))
    found = judged_alone(read, asked, device, seconds)
    _told(device, len(timed), len(unsure), len(sure), found, len(asked))


def unique(attempts: Sequence[BenchAttempt]) -> list[BenchAttempt]:
    """Each kernel of a task once, as it was judged first: a text that comes again is not judged again."""
    found: dict[tuple[str, str], BenchAttempt] = {}
    for each in attempts:
        if each.candidate:
            found.setdefault((each.task, each.candidate), each)
    return list(found.values())


def judged_alone(run: BenchRun, asked: Sequence[BenchAttempt], device: str, seconds: float) -> list[Again]:
    try:
        terms = BenchJudgeSettings.of(run.settings)
    except (KeyError, TypeError):
        raise UsageError(
            f"{run.folder}: its bench.json does not say how kernels were judged; give the folder of a bench run"
        ) from None
    if terms.kind != device.partition(":")[0]:
        raise UsageError(f"the run was judged on {terms.kind}; give --device {terms.kind}")
    tasks = {task.id: Task(task.source, name=task.name, origin=task.name, level=task.level) for task in run.tasks}
    found: list[Again] = []
    begun = time.monotonic()
    with Judge(device, **terms.options) as judge:
        for attempt in asked:
            if time.monotonic() - begun > seconds:
                break
            candidate = Candidate(read_kernel(run.folder, attempt.candidate), attempt.language)  # type: ignore[arg-type]
            try:
                now: Verdict | None = judge.judge(tasks[attempt.task], candidate)
            except BottegaError as error:
                print(f"{tasks[attempt.task].name}: no verdict: {error}", file=sys.stderr)
                now = None
            then = attempt.verdict.outcome.value if attempt.verdict else ""
            last = Again(tasks[attempt.task].name, then, now.outcome.value if now else "no verdict")
            found.append(last)
            print(f"[{len(found)}/{len(asked)}] {last.task}: {last.then}, alone {last.now}", file=sys.stderr, flush=True)
    return found


def share_lost(ambiguous: int, faster: int, found: Sequence[Again]) -> tuple[float, float]:
    """Of the kernels that are faster alone: how many the run called ambiguous, about, and how many there are. What was not judged
    again is taken to be like what was."""
    again = [each for each in found if each.then == Outcome.AMBIGUOUS.value]
    lost = sum(each.now == Outcome.FASTER.value for each in again) * (ambiguous / len(again)) if again else 0.0
    return lost, lost + faster


def _told(device: str, timed: int, ambiguous: int, faster: int, found: Sequence[Again], asked: int) -> None:
    rows = []
    for then in (Outcome.AMBIGUOUS.value, Outcome.FASTER.value):
        now = Counter(each.now for each in found if each.then == then)
        in_run = ambiguous if then == Outcome.AMBIGUOUS.value else faster
        words = ", ".join(f"{count} {word}" for word, count in now.most_common())
        rows.append([then, str(in_run), str(sum(now.values())), str(now[Outcome.FASTER.value]), words or "-"])
    lost, alone = share_lost(ambiguous, faster, found)
    share = lost / alone if alone else 0.0
    remarks = [
        where(device),
        f"{timed} kernels were timed in the run; of about {alone:.0f} that are faster alone, {lost:.0f} were called ambiguous: {share:.1%} "
        f"(below {upper_bound(round(lost), round(alone)):.1%} with 95 % confidence; the aim is below {AIM:.0%})",
    ]
    if len(found) < asked:
        remarks.append(f"{asked - len(found)} were not begun; give more --seconds")
    show(
        "a run beside a model, and the same kernels alone",
        ("in the run", "kernels", "judged again", "faster alone", "alone"),
        rows,
        remarks,
    )


if __name__ == "__main__":
    launch(main)
