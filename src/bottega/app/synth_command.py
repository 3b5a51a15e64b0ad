"""`bottega tasks synth`: tasks by the thousand, examined by the judge."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer
from pydantic import Field
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bottega.app.configured import Given
from bottega.app.terminal import Terminal, print_json, say
from bottega.core.errors import UsageError
from bottega.core.setting_kinds import Numbers, Positive, Seconds, Words, Workers
from bottega.core.settings import CommandSettings
from bottega.core.task import Task
from bottega.data.task_examiner import JudgeExaminer
from bottega.judge.judge import Judge
from bottega.judge.machine import worker_count
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import CATALOGUE, Benchmark, SynthPlan, SynthSummary, SynthTally, parse_shard, run
from bottega.tasks.synth.similarity import ALIKE


class TasksSynthSettings(CommandSettings):
    command: ClassVar[str] = "tasks synth"
    flags: ClassVar[tuple[str, ...]] = ("out", "count", "seed", "device", "levels", "families", "like", "json")

    out: Path
    """The folder to write; a run that was interrupted goes on there."""
    count: Positive = 100
    """Accepted tasks that are wanted."""
    seed: int = 0
    """The same seed gives the same tasks."""
    device: str = "cpu"
    """cpu, cuda or cuda:N: where the tasks will be judged."""
    levels: Numbers = (1, 2, 3)
    """Levels of the tasks."""
    families: Words = ()
    """Families of operators, by comma; all if left out. `formulas` alone: primitive operators; `chains` alone: a layer and what follows."""
    like: Words = ()
    """Vary these tasks instead: other functions, operators and constants in the structure that they have."""
    decontaminate: Words = ()
    """Stay away from these tasks: files, folders or data sets."""
    threshold: float = ALIKE
    """Similarity to a task of `decontaminate` above which a task is dropped."""
    shard: str = "1/1"
    """2/8: only every eighth task, from the second on."""
    workers: Workers = "auto"
    """Tasks that are examined side by side; auto is what the cores carry."""
    compile: bool = False
    """Keep only what torch.compile can compile, too."""
    filter: bool = True
    """Run every task and keep what can be judged fairly; false writes unmeasured tasks, at once."""
    shortest_ms: float = 0.0
    """Least eager time; 0 is the device's."""
    longest_ms: float = 0.0
    """Most eager time; 0 is the device's."""
    timeout: Seconds = 120.0
    """Seconds that one task may take to be examined."""
    format: Literal["jsonl", "parquet"] = "jsonl"
    """Of the table of tasks."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """One JSON object on standard output."""


def synth_command(given: Given[TasksSynthSettings]) -> None:
    """Write new tasks: operators composed into modules, kept when they can be judged fairly.

        bottega tasks synth --count 1000 --device cpu --out my-tasks

    Or variations of modules that you have, which keep their structure:

        bottega tasks synth --like my-modules --count 300 --out more-like-mine

    Every task depends on the seed and its number alone. Started again with the same options, a run goes on where it stopped.

    Exit code 0 when as many tasks as wanted were accepted, 2 when the run cannot go on; what was examined is kept either way.
    """
    settings = given.settings
    if given.words:
        raise UsageError(f"{given.words[0]}: is no setting; write key=value, or name tasks to vary with --like")
    device, levels = settings.device, tuple(sorted(set(settings.levels)))
    number, of = parse_shard(settings.shard)
    away, digest = _benchmark(settings.decontaminate, device)
    originals = _tasks("like", settings.like, device, levels)
    plan = SynthPlan(
        settings.count,
        settings.seed,
        device,
        levels,
        settings.families,
        number,
        of,
        settings.compile and settings.filter,
        settings.filter,
        settings.threshold,
        digest,
        settings.shortest_ms,
        settings.longest_ms,
        _digest(originals),
    ).checked()
    workers = worker_count(settings.workers, device)
    console = Terminal(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("tasks accepted", total=settings.count)

        def watch(tally: SynthTally) -> None:
            progress.update(bar, completed=tally.accepted, description=f"{tally.looked_at} looked at, {tally.words()}")

        def written(examiner: JudgeExaminer | None) -> SynthSummary:
            return run(
                plan,
                settings.out,
                examiner,
                workers=workers if examiner else 1,
                benchmark=away,
                originals=originals,
                table=settings.format,
                watch=watch,
            )

        try:
            if settings.filter:
                with Judge(device, workers=workers, task_timeout=settings.timeout, quick=True) as judge:
                    summary = written(JudgeExaminer(judge, settings.compile))
            else:
                summary = written(None)
        except KeyboardInterrupt:
            say(f"bottega: interrupted; what was examined is kept in {settings.out}, the same command goes on", err=True)
            raise typer.Exit(130) from None
    if settings.as_json:
        print_json({"out": str(settings.out), **summary.to_json()})
    else:
        show_summary(summary, settings.out)


def _benchmark(references: Sequence[str], device: str) -> tuple[Benchmark | None, str]:
    """The tasks to stay away from, and a digest that tells another set of them from this one."""
    tasks = _tasks("decontaminate", references, device, None)
    return (Benchmark(tasks) if tasks else None), _digest(tasks)


def _tasks(option: str, references: Sequence[str], device: str, levels: tuple[int, ...] | None) -> tuple[Task, ...]:
    if not references:
        return ()
    loaded = load_tasks(references, size="cpu" if device == "cpu" else "gpu")
    for problem in loaded.problems:
        say(f"bottega: {problem.message}; it is left out", err=True)
    tasks = tuple(task for task in loaded.tasks if levels is None or task.level is None or task.level in levels)
    if not tasks:
        wanted = f" of level {', '.join(map(str, levels))}" if levels and loaded.tasks else ""
        raise UsageError(f"{option} names no task{wanted} that could be read")
    return tasks


def _digest(tasks: tuple[Task, ...]) -> str:
    return hashlib.sha256(" ".join(sorted(task.id for task in tasks)).encode()).hexdigest()[:16] if tasks else ""


def show_summary(summary: SynthSummary, out: Path) -> None:
    table = Table(
        title=f"{summary.accepted} of {summary.looked_at} tasks accepted in {summary.seconds:.0f} s", title_justify="left"
    )
    table.add_column("")
    table.add_column("")
    table.add_row("dropped", ", ".join(f"{reason} {count}" for reason, count in summary.dropped.items()) or "none")
    for name in ("levels", "structures", "dtypes", "families"):
        counts: dict[str, int] = getattr(summary, name)
        table.add_row(name, ", ".join(f"{key} {count}" for key, count in counts.items()))
    if "like" not in summary.plan:
        table.add_row("operators", f"{len(summary.operators)} of {len(CATALOGUE)} of the catalogue")
    if summary.eager_ms:
        table.add_row("eager", ", ".join(f"{name} {value:.3g} ms" for name, value in summary.eager_ms.items()))
    for name, words in summary.failing.items():
        table.add_row("does not run here", f"{name}: {words}")
    for index, words in summary.lost.items():
        table.add_row("not examined", f"{index}: {words}")
    Terminal().print(table)
    say(f"wrote {out}")
