"""The tasks of a run: loaded, chosen, each once. What cannot be used keeps its row, because a total that leaves it out is another total."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bottega.bench.attempt import BenchTask
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.load import Problem, load_tasks

NOT_YET = "not all of it is judged yet"
"""The trouble of a task until its last attempt is kept: a run that is killed is honest about what it lacks."""
CANNOT = "cannot be "
"""How the fitness of a task begins that does not run at all."""
NO_CANDIDATE = "no candidate"
"""The trouble of a task for which others wrote no kernel. It counts as one that was not solved."""


@dataclass(frozen=True)
class TaskSet:
    rows: tuple[BenchTask, ...]
    tasks: dict[str, Task]
    """By id; a row that is not here cannot even be loaded."""
    repeated: tuple[str, ...] = ()
    """Tasks that are the same as another by their source, in a line each. They count once."""

    @property
    def digest(self) -> str:
        return digest_of(self.rows)


def load_task_set(
    references: Iterable[str], size: str, levels: Sequence[int] = (), only: str = "", limit: int | None = None
) -> TaskSet:
    """Raises `UsageError` where nothing is left to judge."""
    named = list(references)
    loaded = load_tasks(named, size=size, levels=levels or None)
    found: list[Task | Problem] = [*loaded.tasks, *loaded.problems]
    if only:
        found = [item for item in found if any(fnmatchcase(name, only) for name in _names(item))]
    if not found:
        chosen = f" of level {', '.join(map(str, levels))}" if levels else ""
        raise UsageError(f"{' '.join(named)}: no task{chosen}{f' that fits {only!r}' if only else ''} is there to judge")
    rows: dict[str, BenchTask] = {}
    tasks: dict[str, Task] = {}
    repeated = []
    for item in found:
        row = _row(item)
        if row.id in rows:
            repeated.append(f"{item.origin}: is the same task as {rows[row.id].name}, which counts once")
            continue
        rows[row.id] = row
        if isinstance(item, Task):
            tasks[row.id] = item
    kept = _spread(list(rows.values()), limit)
    return TaskSet(tuple(kept), {row.id: tasks[row.id] for row in kept if row.id in tasks}, tuple(repeated))


def digest_of(rows: Iterable[BenchTask]) -> str:
    """Of the tasks as they are: names, levels and texts."""
    lines = sorted(f"{row.id} {row.level} {row.name} {hashlib.sha256(row.source.encode()).hexdigest()}" for row in rows)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()  # a file's name may be no UTF-8


def _row(item: Task | Problem) -> BenchTask:
    if isinstance(item, Task):
        family = next((tag for tag in item.tags if ":" not in tag), "")
        return BenchTask(item.id, item.name, item.level, family, item.source, trouble=NOT_YET)
    name = Path(item.origin).stem if item.origin.endswith(".py") else item.origin
    token = hashlib.sha256(item.origin.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return BenchTask(f"unusable-{token}", name, item.level, "", "", fitness=f"{CANNOT}used: {item.message}", trouble=NOT_YET)


def _names(item: Task | Problem) -> tuple[str, ...]:
    return (item.name, item.origin, item.id) if isinstance(item, Task) else (item.origin, Path(item.origin).stem)


def _spread(rows: list[BenchTask], limit: int | None) -> list[BenchTask]:
    """So many of them at even distances, so that a part has all levels and families that the whole has."""
    if limit is None or limit >= len(rows):
        return rows
    if limit < 1:
        raise UsageError(f"a limit of {limit} tasks leaves none")
    return [rows[place * len(rows) // limit] for place in range(limit)]
