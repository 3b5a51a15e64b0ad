"""Samples against turns: cells worked out by hand, and edges that must agree with the run's own series."""

from __future__ import annotations

from math import log

import pytest
from worked import run_of

from bottega.bench.metrics import summary
from bottega.bench.scaling import equal_budgets

RUN = run_of({"a": [["incorrect", 4.0], [2.0, 1.0]], "b": [["incorrect", "incorrect"], ["incorrect", 3.0]]})
"""Best by the first turn: a (none, 2), b (none, none). By the second: a (4, 2), b (none, 3)."""


def test_the_grid_by_hand() -> None:
    found = {(cell.samples, cell.turns): cell for cell in summary(RUN, resamples=20).every.grid}
    assert set(found) == {(1, 1), (2, 1), (1, 2), (2, 2)}
    assert {at: cell.correct.point for at, cell in found.items()} == {
        (1, 1): (1 / 2 + 0) / 2, (2, 1): (1 + 0) / 2, (1, 2): (1 + 1 / 2) / 2, (2, 2): 1}  # fmt: skip
    assert {at: cell.mean.point for at, cell in found.items()} == {
        (1, 1): ((0 + 2) / 2 + 0) / 2, (2, 1): (2 + 0) / 2, (1, 2): ((4 + 2) / 2 + (0 + 3) / 2) / 2, (2, 2): (4 + 3) / 2}  # fmt: skip
    # What a user keeps is a mean of logarithms, with 0 for what is not surely faster.
    assert log(found[1, 2].kept.point or 0) == pytest.approx(((log(4) + log(2)) / 2 + (0 + log(3)) / 2) / 2)
    assert log(found[2, 2].kept.point or 0) == pytest.approx((log(4) + log(3)) / 2)


def test_what_is_not_surely_faster_is_not_kept() -> None:
    cells = summary(run_of({"a": [[0.5, (1.4, 0.9, 2.0)], ["incorrect", (1.2, 1.1, 1.3)]]}), resamples=10).every.grid
    kept = {(cell.samples, cell.turns): cell.kept.point for cell in cells}
    # One sample keeps nothing; the other its 1.2, which is surer than 1.4.
    assert kept == {(1, 1): 1, (2, 1): 1, (1, 2): pytest.approx(1.2 ** (1 / 2)), (2, 2): pytest.approx(1.2)}


def test_equal_budgets_stand_beside_each_other() -> None:
    told = {"a": [["incorrect"] * 4] * 3 + [[1.0, 2.0, 3.0, 4.0]]}
    rows = equal_budgets(summary(run_of(told), resamples=20).every.grid)
    assert [(cell.samples, cell.turns) for cell in rows[4]] == [(4, 1), (2, 2), (1, 4)]
    assert [cell.mean.point for cell in rows[4]] == pytest.approx([1.0, 2.0 * 2 / 4, 4.0 / 4])
    assert 1 not in rows and 16 not in rows


def test_the_edges_of_the_grid_are_the_series() -> None:
    found = summary(RUN, resamples=50, seed=3).every
    cells = {(cell.samples, cell.turns): cell for cell in found.grid}
    for turns in (1, 2):
        series = found.best_by_turn[turns - 1]
        assert cells[1, turns].fast[1.0] == series.fast[1.0]
        assert cells[1, turns].kept == series.kept
    for samples in (1, 2):
        assert cells[samples, 2].sure[1.0] == found.best_of_n[samples - 1].sure[1.0]
        assert cells[samples, 2].fast[1.0] == (found.pass_fast[samples])
    assert cells[2, 2].fast[1.0] == found.fast[1.0]
    assert cells[2, 2].mean == found.speeds.mean
    assert cells[2, 2].kept.point == pytest.approx(found.speeds.kept.point)


def test_more_kernels_are_never_worse() -> None:
    cells = {(cell.samples, cell.turns): cell for cell in summary(RUN, resamples=10).every.grid}
    for (samples, turns), cell in cells.items():
        for larger in ((samples + 1, turns), (samples, turns + 1)):
            if larger in cells:
                assert (cells[larger].mean.point or 0) >= (cell.mean.point or 0)
                assert (cells[larger].correct.point or 0) >= (cell.correct.point or 0)
