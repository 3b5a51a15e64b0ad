"""Turns over a wide space of settings, on made-up landscapes with one peak each, which no other task tells of."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
from choice_wide import A_TURN, Process, WideTask, grid, handed_over, picked, point

from bottega.compiler.answer_choices import AnswerChange, changed
from bottega.compiler.choice_places import ChoicePlace

PLACE = ChoicePlace("linear", "linear", {"rows": 4096, "columns": 4096, "depth": 1024})
LABELS = tuple(
    f"tile=({rows}, {columns}, 32), warps={warps}, stages={stages}"
    for rows, columns, warps, stages in itertools.product((16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (4, 8), (2, 4))
)
PROCESS = Process(spread=0.2, length=2.0, noise=0.01)


def task(number: int) -> WideTask:
    peak = np.array(point(random.Random(number).choice(LABELS)))
    away = [float(((np.array(point(label)) - peak) ** 2).sum()) for label in LABELS]
    return WideTask(f"task {number}", "float32", PLACE, LABELS, np.array([0.4 * math.exp(-one / 6) - 0.2 for one in away]))


def test_turns_that_read_what_was_measured_find_more_than_as_many_settings_at_once() -> None:
    tasks, mean = [task(number) for number in range(12)], np.zeros(len(LABELS))
    turns = [handed_over(one, picked(PROCESS, one, mean, 16, A_TURN)) for one in tasks]
    blind = [handed_over(one, picked(PROCESS, one, mean, 16, 16)) for one in tasks]
    assert sum(turns) > sum(blind) + 0.01 * len(tasks)
    assert all(value >= 0 for value in (*turns, *blind))


def test_no_setting_is_picked_twice_and_a_single_turn_reads_nothing() -> None:
    one, mean = task(3), np.zeros(len(LABELS))
    chosen = picked(PROCESS, one, mean, 24, A_TURN)
    assert len(set(chosen)) == 24
    other = WideTask(one.id, one.dtype, one.place, one.labels, one.gains[::-1].copy())
    assert picked(PROCESS, one, mean, 16, 16) == picked(PROCESS, other, mean, 16, 16)
    assert picked(PROCESS, one, mean, 16, A_TURN) != picked(PROCESS, other, mean, 16, A_TURN)


def test_a_grid_varies_all_numbers_together_and_changes_the_answers_text() -> None:
    answer = "y = linear(x, w)\n"
    at = answer.index(")")
    known = [
        AnswerChange("linear 8x8 8x8", label, ((at, at, f", {label}"),))
        for label in ("tile=(64, 64, 32)", "tile=(128, 256, 64)")
    ]
    found = grid(known, "float32")
    labels = [one.label for one in found]
    assert len(set(labels)) == len(labels) and "tile=(64, 64, 32), warps=8, stages=3" in labels
    assert "tile=(128, 256, 64), warps=8, stages=4" not in labels  # more than a program may have
    assert changed(answer, [found[0]]) == f"y = linear(x, w, {labels[0]})\n"
