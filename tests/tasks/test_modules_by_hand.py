"""The modules by hand that results are measured on: all of them tasks, none of them a built-in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bottega.tasks.load import load_tasks
from bottega.tasks.synth.similarity import ALIKE, Benchmark

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SETS = {
    "third_modules": {1: 20, 2: 30, 3: 20},
    "fourth_modules": {1: 20, 2: 30, 3: 20},
}


@pytest.mark.rotates
@pytest.mark.parametrize("folder", SETS)
def test_every_module_is_a_task_of_its_level(folder: str) -> None:
    by_level = SETS[folder]
    loaded = load_tasks([BENCHMARKS / folder])
    assert loaded.problems == ()
    assert Counter(task.level for task in loaded.tasks) == by_level
    assert len({task.id for task in loaded.tasks}) == len({task.name for task in loaded.tasks}) == sum(by_level.values())
    others = load_tasks(["builtin", *(BENCHMARKS / name for name in SETS if name != folder)], size="gpu")
    assert not {task.id for task in loaded.tasks} & {task.id for task in others.tasks}


@pytest.mark.slow
def test_no_module_that_was_taught_is_like_one_that_is_measured_on() -> None:
    taught = load_tasks([BENCHMARKS / "taught_modules.jsonl"])
    assert taught.problems == () and len(taught.tasks) == 1052
    measured_on = Benchmark(load_tasks(["builtin", *(BENCHMARKS / name for name in SETS)], size="gpu").tasks)
    nearest = [measured_on.nearest(task.source) for task in taught.tasks]
    assert [near for near in nearest if near.similarity > ALIKE] == []
