"""Rows of the sweep's tasks, cut into folds by the tasks' names: every task is set aside once."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from choice_sweep import RESULTS, Row, rows_of, tasks_of
from choice_tasks import SweepTask

FOLDS = 4
Read = TypeVar("Read")


def measured(
    sweep: Path, read: Callable[[SweepTask, Row], Read], processes: int, limit: int = 0
) -> tuple[list[Row], list[Read]]:
    """The sweep's rows of tasks whose rule was timed, and what is read of each with its task, in processes of their own."""
    tasks = {one.id: one for one in tasks_of(sweep)}
    rows = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        return rows, list(pool.map(read, [tasks[row["task"]] for row in rows], rows, chunksize=4))


def part_of(task: str, cut: str, parts: int) -> int:
    """By the task's name alone; cuts of several names are independent."""
    return int(hashlib.sha256(f"{cut} {task}".encode()).hexdigest(), 16) % parts


def fold_of(task: str) -> int:
    return part_of(task, "fold", FOLDS)


def of_fold(made: Sequence[Row], fold: int) -> list[Row]:
    """Built-in tasks of other folds are left out."""
    each = [{**row, "held_out": fold_of(row["task"]) == fold} for row in made]
    return [row for row in each if row["held_out"] or row["structure"] != "builtin"]


def rows_file(folder: Path, fold: int) -> Path:
    return folder / f"rows-{fold}.jsonl"


def parts(folder: Path, fold: int, limit: int = 0) -> tuple[list[Row], list[Row], list[Row]]:
    """To learn from, to choose settings by (a sixth of them), and set aside."""
    every = rows_of(rows_file(folder, fold))
    own = [row for row in every if not row["held_out"]]
    random.Random(fold).shuffle(own)
    sixth = len(own) // 6
    found = own[sixth:], own[:sixth], [row for row in every if row["held_out"]]
    return tuple(part[: limit or None] for part in found)  # type: ignore[return-value]
