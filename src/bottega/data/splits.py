"""Training and held-out sides: tasks are divided by what they compute, so that a held-out combination of operators is new to training.

Tasks with the same operators, by the words of their data set or by ours, and tasks of nearly the same text belong together; a hash of
the group decides its side. The same tasks and salt give the same sides.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from typing import Literal

from bottega.data.operators import combination
from bottega.data.records import TaskRecord
from bottega.data.structure import DisjointSets, clusters

Split = Literal["train", "test"]

SAME_TEXT = 0.95
"""Tasks whose modules' outlines are at least so alike are near-duplicates. One operator changed in a small module is not, in a large one
it is."""


def splits_of(task_records: Sequence[TaskRecord], held_out: float, salt: str) -> dict[str, Split]:
    """The side of each task, by its id."""
    task_records = sorted(
        task_records, key=lambda task_record: task_record.task.id
    )  # the order in which they come decides nothing
    groups = DisjointSets(len(task_records))
    first: dict[str, int] = {}
    alike = clusters([_module(task_record.task.source) for task_record in task_records], SAME_TEXT)
    keys = [(f"told {' '.join(s.ops)}", f"read {combination(s.task)}", f"like {c}") for s, c in zip(task_records, alike)]
    for number, of_task in enumerate(keys):
        for key in of_task:
            groups.join(first.setdefault(key, number), number)
    names: dict[int, str] = {}
    for number, (_, read, _) in enumerate(keys):
        root = groups.root(number)
        names[root] = min(names.get(root, read), read)
    return {
        task_record.task.id: "test" if _drawn(names[groups.root(number)], salt) < held_out else "train"
        for number, task_record in enumerate(task_records)
    }


def _module(source: str) -> str:
    """The classes of a task: how its inputs are drawn is much the same everywhere."""
    tree = ast.parse(source)
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.ClassDef))


def _drawn(name: str, salt: str) -> float:
    """A number from 0 to 1 that only the name and the salt decide."""
    return int.from_bytes(hashlib.sha256(f"{salt}\0{name}".encode()).digest()[:8], "big") / 2**64
