"""RL on choices takes tasks where a choice gained, and none of those that are set aside."""

from __future__ import annotations

from pathlib import Path

import choice_rl
import pytest
from choice_distil import is_held_out
from choice_sweep import RESULTS, rows_of

from bottega.tasks.load import load_tasks
from bottega.train.config import read_config

SWEEP = Path(__file__).parents[2] / "benchmarks" / "choice_sweep_h200"


@pytest.mark.rotates
def test_tasks_to_learn_from_gain_by_a_choice_and_are_not_set_aside(tmp_path: Path) -> None:
    choice_rl.tasks(SWEEP, tmp_path)
    found = load_tasks([tmp_path / choice_rl.TASKS], size="gpu")
    rows = {row["task"]: row for row in rows_of(SWEEP / RESULTS)}
    assert len(found.tasks) > 50 and not found.problems
    assert all(rows[task.id]["gain"] >= choice_rl.LEAST_GAIN and not is_held_out(rows[task.id]) for task in found.tasks)


def test_settings_of_every_arm_can_be_read() -> None:
    for name, own in choice_rl.ARMS.items():
        config = read_config("rl", "one-gpu", None, [*choice_rl.SETTINGS, *own])
        assert config.rollout.samples * (config.rollout.schemes + 1) == 16, name
        assert not config.ablations.skills
