"""Loads tasks of every kind: a reference names a file, a folder, a data set or the built-in suite.

A reference that names nothing is wrong usage and raises at once. A task that cannot be used is reported beside the good
ones, because one broken file in a folder of hundreds must not cost the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bottega.core.errors import TaskError, UsageError
from bottega.core.plugins import Plugins
from bottega.core.task import Task
from bottega.tasks.builtin import BUILTIN, SIZES, builtin_files, load_builtin
from bottega.tasks.dataset import KERNELBENCH, Selector, is_dataset, local_rows, parse_selector, remote_rows, task_of_row
from bottega.tasks.files import level_of_folder, load_file, task_files

SOURCES = Plugins(
    "tasks", "task source", {BUILTIN: "bottega.tasks.load:builtin_tasks", KERNELBENCH: "bottega.tasks.load:kernelbench_tasks"}
)
"""A source is a function `(selector, size, levels)` that yields tasks, and a `Problem` for each that cannot be used. `selector` is what
stands behind `NAME:` or `module:Name:` in a reference; a source may ignore `size` and `levels`."""


@dataclass(frozen=True)
class Problem:
    """A task that could not be used, and why, in a line that stands on its own."""

    origin: str
    message: str
    level: int | None = None


@dataclass(frozen=True)
class LoadedTasks:
    """What a set of references came to."""

    tasks: tuple[Task, ...]
    problems: tuple[Problem, ...] = ()


def load_task(reference: str | Path, *, size: str = "cpu") -> Task:
    """The one task that `reference` names. `TaskError` if it cannot be used, `UsageError` if it is not exactly one."""
    loaded = load_tasks([reference], size=size)
    labels = [task.label for task in loaded.tasks] + [problem.origin for problem in loaded.problems]
    if len(labels) != 1:
        raise UsageError(f"{reference}: names {len(labels)} tasks where one is wanted; name one of them, such as {labels[0]}")
    if loaded.problems:
        raise TaskError(loaded.problems[0].message)
    return loaded.tasks[0]


def load_tasks(references: Iterable[str | Path], *, size: str = "cpu", levels: Collection[int] | None = None) -> LoadedTasks:
    """Every task that the references name, in their order and each once, and beside them what could not be used.

    A reference is a file; a folder (KernelBench's `level1/ … level4/`, or any folder of task files); `builtin`,
    `builtin:level2` or `builtin:NAME`, at `size`; `kernelbench`, `kernelbench:level1` or `kernelbench:level1/23`; or a data
    set on disk (a .jsonl or .parquet file, a saved folder), also with such a selector behind a colon. A `Path` is always
    taken as a path. Any other source is named `NAME:selector` or `module:Name:selector`. `levels` keeps only tasks of these levels; a
    task without a level is then left out.
    """
    if size not in SIZES:
        raise UsageError(f"size {size!r}: built-in tasks come in the sizes {' and '.join(SIZES)}")
    wanted = None if levels is None else frozenset(levels)
    found: dict[tuple[str, str], Task | Problem] = {}
    for reference in [references] if isinstance(references, str | Path) else references:
        for item in _resolve(reference, size, wanted):
            if wanted is None or item.level in wanted:
                found.setdefault((item.origin, item.source if isinstance(item, Task) else item.message), item)
    return LoadedTasks(
        tuple(item for item in found.values() if isinstance(item, Task)),
        tuple(item for item in found.values() if isinstance(item, Problem)),
    )


def _resolve(reference: str | Path, size: str, levels: frozenset[int] | None) -> Iterator[Task | Problem]:
    text = str(reference)
    if not text.strip() or "\0" in text:
        raise UsageError("an empty or malformed reference: name a task file, a folder, builtin or kernelbench:level1")
    name, _, selector = text.partition(":")
    if isinstance(reference, str) and name in SOURCES.names:
        yield from SOURCES.load(name)(selector, size, levels)
    else:
        yield from _resolve_path(text, size, levels)


def builtin_tasks(selector: str, size: str, levels: frozenset[int] | None) -> Iterator[Task | Problem]:
    for path in builtin_files(selector):
        yield _attempt(partial(load_builtin, path, size), f"{BUILTIN}:{path.stem}", level_of_folder(path.parent))


def kernelbench_tasks(selector: str, size: str, levels: frozenset[int] | None) -> Iterator[Task | Problem]:
    for row in remote_rows(parse_selector(selector, f"{KERNELBENCH}:{selector}"), levels):
        yield _attempt(partial(task_of_row, row), row.origin, row.level)


def _resolve_path(text: str, size: str, levels: frozenset[int] | None) -> Iterator[Task | Problem]:
    path, selector = Path(text), Selector()
    try:
        before, _, after = text.rpartition(":")
        if before and not path.exists() and is_dataset(Path(before)):
            path, selector = Path(before), parse_selector(after, text)
        exists, is_folder, holds_rows = path.exists(), path.is_dir(), is_dataset(path)
        files = task_files(path, levels) if is_folder and not holds_rows else [path]
    except OSError as error:
        raise UsageError(f"{text}: cannot be opened: {error.strerror}") from None
    name, selection = SOURCES.split(text)
    if not exists and name:
        yield from SOURCES.load(name)(selection, size, levels)
        return
    if not exists:
        raise UsageError(f"{text}: no such file or folder; name a task file, a folder, builtin or kernelbench:level1")
    if holds_rows:
        for row in local_rows(path, selector):
            yield _attempt(partial(task_of_row, row), row.origin, row.level)
    else:
        for file in files:
            yield _attempt(partial(load_file, file), str(file), level_of_folder(file.parent))


def _attempt(load: Callable[[], Task], origin: str, level: int | None) -> Task | Problem:
    try:
        return load()
    except TaskError as error:
        return Problem(origin, str(error), level)
