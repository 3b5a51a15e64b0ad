"""Tasks with their columns: what a data set says of a task beside its code goes along, where the references name a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import TaskError, UsageError
from bottega.data.records import TaskRecord, task_record_of
from bottega.tasks.dataset import Selector, is_dataset, local_rows
from bottega.tasks.load import load_tasks


def load_task_records(references: Sequence[str], device: str, levels: Sequence[int] = ()) -> tuple[list[TaskRecord], list[str]]:
    """Every task once, and a line for each that cannot be used."""
    loaded = load_tasks(references, size="cpu" if device == "cpu" else "gpu", levels=levels or None)
    columns = {code: found for reference in references for code, found in _columns(reference).items()}
    problems = [problem.message for problem in loaded.problems]
    found: dict[str, TaskRecord] = {}
    for task in loaded.tasks:
        try:
            found.setdefault(task.id, task_record_of(task, columns.get(task.source)))
        except TaskError as error:
            problems.append(str(error))
    if not found:
        raise UsageError(f"no task could be loaded{': ' + problems[0] if problems else ''}")
    return list(found.values()), problems


def _columns(reference: str) -> dict[str, Mapping[str, Any]]:
    """By code, what a table on disk says of its tasks; anything else says nothing."""
    path = Path(reference)
    if not path.exists() and ":" in reference:
        path = Path(reference.rpartition(":")[0])
    return {row.code: row.columns for row in local_rows(path, Selector())} if is_dataset(path) else {}
