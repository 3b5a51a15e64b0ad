"""Tasks with their columns: what a data set says of a task beside its code goes along, where the references name a data set."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import TaskError, UsageError
from bottega.data.records import TaskRecord, task_record_of
from bottega.tasks.load import load_tasks

COLUMNS = ("ops", "families", "structure")


def load_task_records(references: Sequence[str], device: str, levels: Sequence[int] = ()) -> tuple[list[TaskRecord], list[str]]:
    """Every task once, and a line for each that cannot be used."""
    loaded = load_tasks(references, size="cpu" if device == "cpu" else "gpu", levels=levels or None)
    columns = {row["code"]: row for reference in references for row in _rows(reference)}
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


def _rows(reference: str) -> Iterator[dict[str, Any]]:
    """Rows of a table on disk that say more than the code; anything else has none."""
    path = Path(reference)
    if not path.exists() and ":" in reference:
        path = Path(reference.rpartition(":")[0])
    tables = [path] if path.is_file() else sorted([*path.glob("*.*"), *path.glob("data/*.*")]) if path.is_dir() else []
    for table in tables:
        if table.suffix in (".jsonl", ".parquet"):
            for row in _read(table):
                if isinstance(row, dict) and isinstance(row.get("code"), str) and any(name in row for name in COLUMNS):
                    yield row


def _read(table: Path) -> Iterable[Any]:
    if table.suffix == ".parquet":
        try:
            return importlib.import_module("pyarrow.parquet").read_table(table).to_pylist()  # type: ignore[no-any-return]
        except Exception:  # whoever loads the tasks from it reports what is wrong with it
            return []
    return _lines(table)


def _lines(table: Path) -> Iterator[Any]:
    with open(table, encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue
