"""`bottega data drafts`: the builder's kernels for a set of tasks as plain files, which `bottega bench --candidates` judges like anybody's.

A bench measures one author. So drafts are a run of their own beside a model's, and `bottega compare` tells the two apart.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.optimize_command import chosen_language
from bottega.app.terminal import say
from bottega.core.candidate import Language
from bottega.core.draft import Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.drafts import BUILDER, drafts_of
from bottega.data.pool import Appointment, Classrooms
from bottega.episodes.delivery.files import write
from bottega.tasks.load import load_tasks

_SAFE = re.compile(r"[\w-]+")


def drafts_command(
    tasks: Annotated[
        list[str], typer.Argument(help="Task files, folders, data sets, builtin, builtin:NAME, or kernelbench:level1.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder for the kernels: TASK.0.py, TASK.1.py …")],
    drafts: Annotated[int, typer.Option("--drafts", help="Kernels of each task, at most.")] = 2,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda: for the size of tasks, and the language.")] = "cpu",
    language: Annotated[
        str | None, typer.Option("--language", help="cpp, triton or cuda; cpp on a CPU, triton on a GPU.")
    ] = None,
    plain: Annotated[
        bool | None,
        typer.Option(
            "--plain/--free", help="In one plain hand, with the shelf's parts in Triton; so in Triton unless you say."
        ),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", help="That trace and write side by side.")] = 2,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for one task.")] = 60.0,
) -> None:
    """Have the builder write kernels for tasks, by rule and unjudged; then judge them as a run of their own.

        bottega data drafts builtin --out drafts
        bottega bench builtin --candidates drafts --name builder --out run-builder
        bottega bench builtin --backbone embedded --out run-model
        bottega compare run-builder run-model

    `bottega optimize --drafts N` lets the same kernels compete with a model's on one module.

    Exit code 0 when there is a kernel, 2 for wrong usage or when every task was refused.
    """
    if drafts < 1 or processes < 1:
        raise UsageError(f"--{'drafts' if drafts < 1 else 'processes'} must be at least 1")
    chosen = chosen_language(language, device)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: is not empty; give another --out")
    loaded = load_tasks(tasks, size="cpu" if device == "cpu" else "gpu")
    for problem in loaded.problems:
        say(f"bottega: {problem.message}", err=True)
    every = list({task.id: task for task in loaded.tasks}.values())
    if not every:
        raise UsageError("no task could be loaded")
    with Classrooms(
        Appointment(BUILDER, {"plain": chosen == "triton" if plain is None else plain}), processes, timeout
    ) as room:
        drawn = asyncio.run(_drawn(room, every, chosen, drafts))
    kept = [(task, one) for task, one in zip(every, drawn) if one.drafts]
    for task, one in zip(every, drawn):
        if one.refused:
            say(f"{task.name}: no draft: {' '.join(one.refused.split())}", err=True)
    if not kept:
        raise UsageError("the builder understood none of these tasks")
    out.mkdir(parents=True, exist_ok=True)
    names = Counter(task.name for task in every)
    for task, one in kept:
        stem = task.name if names[task.name] == 1 and _SAFE.fullmatch(task.name) else task.id
        for number, draft in enumerate(one.drafts):
            write(out / f"{stem}.{number}.py", draft.source)
    kernels = sum(len(one.drafts) for _, one in kept)
    say(f"{kernels} kernels by {kept[0][1].author} for {len(kept)} of {len(every)} tasks are in {out}")
    say(f"judge them with: bottega bench {shlex.join(tasks)} --candidates {shlex.quote(str(out))} --name builder")


async def _drawn(room: Classrooms, tasks: Sequence[Task], language: Language, count: int) -> list[Drafts]:
    return await asyncio.gather(*(_of(room, task, language, count) for task in tasks))


async def _of(room: Classrooms, task: Task, language: Language, count: int) -> Drafts:
    return drafts_of(await room.lecture(task, language), count)
