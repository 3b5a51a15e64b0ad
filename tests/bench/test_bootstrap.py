"""Intervals over tasks: they hold the point, they shrink with more tasks, and they claim no certainty that few tasks cannot give."""

from __future__ import annotations

import numpy as np
import pytest

from bottega.bench.bootstrap import NOTHING, Draws, Spread


def test_points_by_hand() -> None:
    nan = float("nan")
    draws = Draws(4, 200)
    assert draws.share(np.array([1.0, 0.0, 0.0, 1.0])).point == 0.5
    assert draws.geometric_mean(np.array([2.0, 8.0, nan, nan])).point == pytest.approx(4)
    assert draws.geometric_mean(np.array([2.0, 8.0, nan, nan])).over == 2
    assert draws.median(np.array([3.0, nan, 1.0, 7.0])).point == 3
    assert draws.median(np.array([3.0, 5.0, 1.0, 7.0])).point == 4
    assert draws.median(np.array([nan] * 4)) == NOTHING


@pytest.mark.parametrize("seed", range(5))
def test_an_interval_holds_its_point(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=11)
    values[3] = np.nan
    draws = Draws(11, 300, seed)
    for found in (draws.geometric_mean(values), draws.median(values), draws.share((values > 1).astype(float))):
        assert found.point is not None and found.low is not None and found.high is not None
        assert found.low <= found.point <= found.high
        assert found.low < found.high


def test_more_tasks_say_more() -> None:
    few, many = (Draws(count).share(np.arange(count) % 2.0) for count in (10, 1000))
    assert many.high - many.low < (few.high - few.low) / 3  # type: ignore[operator]


def test_the_interval_of_five_of_ten_by_hand() -> None:
    # Of ten fair coins at most 1 falls on heads with a chance of 11/1024, at most 2 with one of 56/1024; 2.5% lies between.
    found = Draws(10).share(np.arange(10) % 2.0)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.8))


def test_the_interval_of_a_share_is_about_the_binomial_one() -> None:
    found = Draws(100).share((np.arange(100) < 30).astype(float))
    assert found.low == pytest.approx(0.30 - 1.96 * np.sqrt(0.3 * 0.7 / 100), abs=0.02)
    assert found.high == pytest.approx(0.30 + 1.96 * np.sqrt(0.3 * 0.7 / 100), abs=0.02)


def test_none_of_four_is_not_certainly_none() -> None:
    # With a share of 0.6024 the chance that four tasks in a row fail is (1 - 0.6024)^4 = 0.025.
    none, all_ = Draws(4).shares(np.array([[0.0, 1.0]] * 4))
    assert (none.point, none.low) == (0, 0)
    assert none.high == pytest.approx(0.6024, abs=1e-4)
    assert (all_.point, all_.high) == (1, 1)
    assert all_.low == pytest.approx(1 - 0.6024, abs=1e-4)
    half = Draws(4).share(np.array([0.5] * 4))
    assert (half.low, half.high) == (pytest.approx(0.5 * (1 - 0.6024), abs=1e-4), pytest.approx(0.5 * (1 + 0.6024), abs=1e-4))


def test_the_judges_own_doubt_is_in_the_interval() -> None:
    same = np.array([2.0] * 8)
    draws = Draws(8)
    exact = draws.geometric_mean(same, Spread.of(same, same, same))
    assert (exact.low, exact.high) == (pytest.approx(2), pytest.approx(2))
    # A factor of 2 to each side is a standard deviation of 0.269 of the logarithm. The variance of a mean over eight tasks, drawn with
    # replacement, lies between an eighth and two eighths of a task's.
    found = draws.geometric_mean(same, Spread.of(same, same / 2, same * 2))
    deviation = np.log(2) / 2.5758
    for end in (found.low, found.high):
        assert end is not None
        assert 1.96 * deviation * np.sqrt(1 / 8) * 0.9 < abs(np.log(end / 2)) < 1.96 * deviation * np.sqrt(2 / 8) * 1.1
    middle = draws.median(same, Spread.of(same, same / 2, same * 2))
    assert middle.low is not None and middle.high is not None and middle.low < 1.9 and middle.high > 2.1
    lopsided = draws.geometric_mean(same, Spread.of(same, same, np.full(8, np.inf)))
    assert lopsided.low == pytest.approx(2) and (lopsided.high or 0) > 3


def test_one_task_has_no_interval_over_tasks() -> None:
    found = Draws(1).geometric_mean(np.array([2.0]))
    assert (found.point, found.low, found.high) == (pytest.approx(2), None, None)


def test_no_task_has_no_figure() -> None:
    draws = Draws(0)
    assert draws.share(np.zeros(0)) == draws.median(np.zeros(0)) == draws.geometric_mean(np.zeros(0)) == NOTHING


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.arange(1.0, 9.0)
    assert Draws(8, seed=3).median(values) == Draws(8, seed=3).median(values)
