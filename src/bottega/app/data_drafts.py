"""`bottega data drafts`: the compiler's kernels for a set of tasks as plain files, which `bottega bench --candidates` judges like anybody's.

All of them are judged so, one sample each; `bottega bench drafts=N` judges them in order, until one is faster.
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

from bottega.app.terminal import say
from bottega.core.draft import Drafts
from bottega.core.errors import UsageError
from bottega.core.files import write
from bottega.core.task import Task
from bottega.data.drafts import BUILDER, drafts_of
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec
from bottega.episodes.writing_settings import LANGUAGE_HELP
from bottega.languages import choose_language
from bottega.tasks.load import load_tasks

_SAFE = re.compile(r"[\w-]+")


def drafts_command(
    tasks: Annotated[
        list[str], typer.Argument(help="Task files, folders, data sets, builtin, builtin:NAME, or kernelbench:level1.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder for the kernels: TASK.0.py, TASK.1.py …")],
    drafts: Annotated[int, typer.Option("--drafts", help="Kernels of each task, at most.")] = 2,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda: for the size of tasks, and the language.")] = "cpu",
    language: Annotated[str | None, typer.Option("--language", help=LANGUAGE_HELP)] = None,
    processes: Annotated[int, typer.Option("--processes", help="That trace and write side by side.")] = 2,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for one task.")] = 60.0,
) -> None:
    """Have the compiler write kernels for tasks, by rule and unjudged; then judge them as a run of their own.

        bottega data drafts builtin --out drafts
        bottega bench builtin --candidates drafts name=compiler --out run-compiler
        bottega bench builtin --backbone embedded --out run-model
        bottega compare run-compiler run-model

    `bottega optimize drafts=N` lets the same kernels compete with a model's on one module, `bottega bench drafts=N` on a set of tasks.

    Exit code 0 when there is a kernel, 2 for wrong usage or when every task was refused.
    """
    if drafts < 1 or processes < 1:
        raise UsageError(f"--{'drafts' if drafts < 1 else 'processes'} must be at least 1")
    chosen = choose_language(language, device)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: is not empty; give another --out")
    loaded = load_tasks(tasks, size="cpu" if device == "cpu" else "gpu")
    for problem in loaded.problems:
        say(f"bottega: {problem.message}", err=True)
    every = list({task.id: task for task in loaded.tasks}.values())
    if not every:
        raise UsageError("no task could be loaded")
    with SandboxTeacherPool(TeacherSpec(BUILDER), processes, timeout) as pool:
        written = asyncio.run(_written(pool, every, chosen, drafts))
    kept = [(task, one) for task, one in zip(every, written) if one.drafts]
    for task, one in zip(every, written):
        if one.refused:
            say(f"{task.name}: no draft: {' '.join(one.refused.split())}", err=True)
    if not kept:
        raise UsageError("the compiler understood none of these tasks")
    out.mkdir(parents=True, exist_ok=True)
    names = Counter(task.name for task in every)
    for task, one in kept:
        stem = task.name if names[task.name] == 1 and _SAFE.fullmatch(task.name) else task.id
        for number, draft in enumerate(one.drafts):
            write(out / f"{stem}.{number}.py", draft.source)
    kernels = sum(len(one.drafts) for _, one in kept)
    say(f"{kernels} kernels by {kept[0][1].author} for {len(kept)} of {len(every)} tasks are in {out}")
    say(f"judge them with: bottega bench {shlex.join(tasks)} --candidates {shlex.quote(str(out))} name=compiler")


async def _written(pool: SandboxTeacherPool, tasks: Sequence[Task], language: str, count: int) -> list[Drafts]:
    return await asyncio.gather(*(_of(pool, task, language, count) for task in tasks))


async def _of(pool: SandboxTeacherPool, task: Task, language: str, count: int) -> Drafts:
    return drafts_of(await pool.teach(task, language), count)
