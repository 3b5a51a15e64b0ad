"""`bottega tasks`: list tasks, show one, and say which cannot be judged fairly."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from bottega.app.configured import configured
from bottega.app.synth_command import TasksSynthSettings, synth_command
from bottega.app.terminal import Terminal, print_json, say, write_source
from bottega.core.errors import TaskError, UsageError
from bottega.judge.invalid_task import unusable
from bottega.judge.judge import Judge
from bottega.tasks.load import load_task, load_tasks

app = typer.Typer(
    help="Where tasks come from, and whether they can be judged fairly.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
)

configured(app, TasksSynthSettings, "")(synth_command)

References = Annotated[
    list[str],
    typer.Argument(help="Task files, folders (KernelBench's layout too), builtin, builtin:NAME, or kernelbench:level1."),
]


@app.command("list")
def list_command(
    references: Annotated[list[str] | None, typer.Argument(help="As for check; the built-in suite if left out.")] = None,
    size: Annotated[str, typer.Option(help="Size of built-in tasks: cpu or gpu.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array on standard output.")] = False,
) -> None:
    """List tasks with their level, id and operator families.

    bottega tasks list builtin:level2
    """
    loaded = load_tasks(references or ["builtin"], size=size)
    if as_json:
        rows = [{"name": t.name, "id": t.id, "level": t.level, "tags": list(t.tags), "origin": t.origin} for t in loaded.tasks]
        print_json(rows)
    else:
        table = Table("level", "name", "id", "families")
        for task in loaded.tasks:
            table.add_row(str(task.level or ""), task.name, task.id, " ".join(task.tags))
        Terminal().print(table)
    _report_problems(loaded.problems)


@app.command("show")
def show_command(
    reference: Annotated[str, typer.Argument(help="A task file or builtin:NAME.")],
    size: Annotated[str, typer.Option(help="Size of built-in tasks: cpu or gpu.")] = "cpu",
) -> None:
    """Print the source of a task.

    bottega tasks show builtin:star_relu
    """
    write_source(load_task(reference, size=size).source)


@app.command("check")
def check_command(
    references: References,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    mode: Annotated[str, typer.Option(help="train, eval, or as-built.")] = "as-built",
    timeout: Annotated[float, typer.Option(help="Seconds that one task may take.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line and task on standard output.")] = False,
) -> None:
    """Say which tasks cannot be judged fairly, and why.

        bottega tasks check my-tasks --device cuda

    Exit code 0 when every task is fit, 1 when some are not, 2 when nothing could be checked.
    """
    if mode not in ("train", "eval", "as-built"):
        raise UsageError(f"unknown mode {mode!r}; use train, eval or as-built")
    loaded = load_tasks(references, size="cpu" if device == "cpu" else "gpu")
    unfit = 0
    with Judge(device, task_timeout=timeout, training={"train": True, "eval": False}.get(mode)) as judge:
        for number, task in enumerate(loaded.tasks, 1):
            try:
                report: dict[str, Any] = judge.fitness(task)
            except TaskError as error:
                report = unusable(str(error))
            unfit += not report["fit"]
            _show_report(number, len(loaded.tasks), task.name, report, as_json)
    if as_json:
        for problem in loaded.problems:
            _show_report(0, 0, problem.origin, unusable(problem.message), as_json)
    _report_problems(loaded.problems)
    if not loaded.tasks:
        raise UsageError("no task could be loaded")
    if not as_json:
        say(f"{len(loaded.tasks) - unfit} of {len(loaded.tasks)} tasks are fit to be judged on {device}")
    raise typer.Exit(1 if unfit or loaded.problems else 0)


def _show_report(number: int, total: int, name: str, report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"task": name, **report})
        sys.stdout.flush()
        return
    milliseconds = report["facts"].get("reference_ms")
    took = f"{milliseconds:.3g} ms" if milliseconds is not None else ""
    say(f"[{number}/{total}] {'fit  ' if report['fit'] else 'UNFIT'} {name}  {took}")
    for problem in report["problems"]:
        say(f"        {problem['name']}: {problem['detail']}")


def _report_problems(problems: Any) -> None:
    for problem in problems:
        say(f"bottega: {problem.message}", err=True)
