"""`bottega tasks synth`: tasks by the thousand, with the judge as examiner."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bottega.app.judging import strict
from bottega.app.terminal import Terminal, say
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.judge.machine import worker_count
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import CATALOGUE, Benchmark, Finding, Plan, Summary, Tally, parse_shard, run


class JudgeExaminer:
    """The judge's fitness as an examiner: it runs, repeats, depends on its inputs and parameters, and takes so long.

    The quickest of the judge's first calls is the time that counts: neighbours on a busy machine only ever make a call longer.
    """

    def __init__(self, judge: Judge, compiled: bool):
        self.judge = judge
        self.baselines = ("compile",) if compiled else ("eager",)

    def examine(self, task: Task) -> Finding:
        report = self.judge.fitness(task, baselines=self.baselines)
        facts = report["facts"]
        problems = tuple((str(problem["name"]), str(problem["detail"])) for problem in report["problems"])
        problems += tuple(("not_compiled", f"the {name} baseline {why}") for name, why in report["unavailable"].items())
        kept = {
            name: facts[name] for name in ("input_bytes", "output_bytes", "parameter_bytes", "reference_ms") if name in facts
        }
        return Finding(bool(report["fit"]) and not report["unavailable"], problems, facts.get("quickest_ms"), strict(kept))


def synth_command(
    out: Annotated[Path, typer.Option("--out", help="The folder to write; a run that was interrupted goes on there.")],
    count: Annotated[int, typer.Option(help="Accepted tasks that are wanted.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same tasks.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N: where the tasks will be judged.")] = "cpu",
    levels: Annotated[str, typer.Option(help="Levels, separated by commas.")] = "1,2,3",
    families: Annotated[
        str,
        typer.Option(
            help="Families, separated by commas; all if left out. `formulas` alone: primitive operators; `chains` alone: a layer and what follows."
        ),
    ] = "",
    like: Annotated[
        list[str] | None,
        typer.Option(
            "--like",
            metavar="TASKS",
            help="Vary these instead: other functions, operators and constants in the structure that they have. May be repeated.",
        ),
    ] = None,
    decontaminate: Annotated[
        list[str] | None,
        typer.Option(
            "--decontaminate",
            metavar="TASKS",
            help="Stay away from these: a file, folder or data set of tasks. May be repeated.",
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Similarity to a task of --decontaminate above which a sketch is dropped.")
    ] = 0.9,
    shard: Annotated[str, typer.Option(help="2/8: only every eighth task, from the second on.")] = "1/1",
    workers: Annotated[
        str, typer.Option(metavar="N", help="Tasks that are examined side by side; auto: what cores carry.")
    ] = "auto",
    compiled: Annotated[bool, typer.Option("--compile", help="Keep only what torch.compile can compile, too.")] = False,
    no_filter: Annotated[bool, typer.Option("--no-filter", help="Do not run anything: unmeasured tasks, at once.")] = False,
    table: Annotated[str, typer.Option("--format", help="jsonl or parquet.")] = "jsonl",
    shortest: Annotated[float, typer.Option("--shortest-ms", help="Least eager time; the device's if left out.")] = 0.0,
    longest: Annotated[float, typer.Option("--longest-ms", help="Most eager time; the device's if left out.")] = 0.0,
    timeout: Annotated[float, typer.Option(help="Seconds that one task may take to be examined.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Write new tasks: operators composed into modules, kept when they can be judged fairly.

        bottega tasks synth --count 1000 --device cpu --out my-tasks

    Or variations of modules that you have, which keep their structure:

        bottega tasks synth --like my-modules --count 300 --out more-like-mine

    Every task depends on the seed and its number alone. Started again with the same options, a run goes on where it stopped.

    Exit code 0 when as many tasks as wanted were accepted, 2 when the run cannot go on; what was examined is kept either way.
    """
    number, of = parse_shard(shard)
    away, digest = _benchmark(decontaminate or [], device)
    originals = _tasks("--like", like or [], device, _numbers(levels))
    plan = Plan(
        count,
        seed,
        device,
        _numbers(levels),
        tuple(name.strip() for name in families.split(",") if name.strip()),
        number,
        of,
        compiled and not no_filter,
        not no_filter,
        threshold,
        digest,
        shortest,
        longest,
        _digest(originals),
    ).checked()
    places = worker_count(workers, device)
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
        bar = progress.add_task("tasks accepted", total=count)

        def watch(tally: Tally) -> None:
            progress.update(bar, completed=tally.accepted, description=f"{tally.looked_at} looked at, {tally.words()}")

        try:
            if no_filter:
                summary = run(plan, out, None, benchmark=away, originals=originals, table=table, watch=watch)
            else:
                with Judge(device, workers=places, task_timeout=timeout, quick=True) as judge:
                    examiner = JudgeExaminer(judge, compiled)
                    summary = run(
                        plan, out, examiner, workers=places, benchmark=away, originals=originals, table=table, watch=watch
                    )
        except KeyboardInterrupt:
            say(f"bottega: interrupted; what was examined is kept in {out}, the same command goes on", err=True)
            raise typer.Exit(130) from None
    if as_json:
        sys.stdout.write(json.dumps(strict({"out": str(out), **summary.to_json()})) + "\n")
    else:
        show_summary(summary, out)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        raise UsageError(f"--levels {text!r}: write numbers, separated by commas") from None


def _benchmark(references: list[str], device: str) -> tuple[Benchmark | None, str]:
    """The tasks to stay away from, and a digest that tells another set of them from this one."""
    tasks = _tasks("--decontaminate", references, device, None)
    return (Benchmark(tasks) if tasks else None), _digest(tasks)


def _tasks(option: str, references: list[str], device: str, levels: tuple[int, ...] | None) -> tuple[Task, ...]:
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


def show_summary(summary: Summary, out: Path) -> None:
    table = Table(
        title=f"{summary.accepted} of {summary.looked_at} sketches accepted in {summary.seconds:.0f} s", title_justify="left"
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
