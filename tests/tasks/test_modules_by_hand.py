"""The modules by hand that results are measured on: all of them tasks, none of them a built-in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bottega.tasks.load import load_tasks

MODULES = Path(__file__).parents[2] / "benchmarks" / "modules"


def test_every_module_is_a_task_of_its_level() -> None:
    loaded = load_tasks([MODULES])
    assert loaded.problems == ()
    assert Counter(task.level for task in loaded.tasks) == {1: 50, 2: 50, 3: 20}
    assert len({task.id for task in loaded.tasks}) == len({task.name for task in loaded.tasks}) == 120
    assert not {task.id for task in loaded.tasks} & {task.id for task in load_tasks(["builtin"], size="gpu").tasks}
