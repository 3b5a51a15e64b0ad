"""Turns that see what earlier picks gained: what each arm is shown, what is handed over, and that feedback is used where it tells something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import choice_serial
import pytest
import torch
from choice_distil import write_rows
from choice_features import FeatureChooser
from choice_folds import rows_file
from choice_scores import GREEDY, all_scores, settled
from choice_serial import BLIND, PARALLEL, SERIAL, play, turn


def row(number: int) -> dict[str, Any]:
    """One of three ways gains much; what a first look gains tells which."""
    gains = [0.0, (0.3, 0.2, 0.1)[number % 3], *(0.5 if way == number % 3 else -0.7 for way in range(3))]
    options = ["rule", "row: look", "row: left", "row: middle", "row: right"]
    return {"task": f"{number}", "prompt": "task\nFastest:", "options": options, "gains": gains, "held_out": number >= 60}


def test_what_each_arm_is_shown() -> None:
    asked = {arm: turn(row(0), [1], arm) for arm in (SERIAL, BLIND, PARALLEL)}
    assert asked[SERIAL]["prompt"] == "task\nTried row: look: 1.35x\nFastest:"
    assert asked[BLIND]["prompt"] == "task\nTried row: look\nFastest:"
    assert asked[PARALLEL]["prompt"] == "task\nFastest:"
    assert asked[SERIAL]["left"] == asked[BLIND]["left"] == [2, 3, 4] and asked[PARALLEL]["left"] == [1, 2, 3, 4]
    assert asked[SERIAL]["adds"] == [0.5 - 0.3, 0.0, 0.0]


def test_likeliest_picks_are_all_different_and_draws_of_parallel_may_repeat() -> None:
    torch.manual_seed(0)
    chooser = FeatureChooser("cpu", remembers=True)
    chooser.reset()
    assert sorted(play(chooser, [row(0)], PARALLEL, 4, greedy=True)[0]) == [1, 2, 3, 4]
    assert all(len(set(picks)) == 4 for picks in play(chooser, [row(0)] * 20, SERIAL, 4))
    assert any(len(set(picks)) < 4 for picks in play(chooser, [row(0)] * 20, PARALLEL, 4))


@pytest.mark.rotates
def test_feedback_is_used_where_it_tells_which_pick_is_next(tmp_path: Path) -> None:
    write_rows(rows_file(tmp_path, 0), map(row, range(84)))
    options: dict[str, Any] = {"device": "cpu", "model": "features", "picks": 2, "epochs": 30, "every": 30, "rates": "1e-2"}
    choice_serial.learn(tmp_path, tmp_path / "out", arms=f"{SERIAL},{BLIND}", **options)
    found = settled(all_scores(tmp_path / "out"), GREEDY)
    means = {arm: sum(found[arm].values()) / len(found[arm]) for arm in (SERIAL, BLIND)}
    assert means[SERIAL] > means[BLIND] + 0.05
