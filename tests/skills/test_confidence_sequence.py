"""The confidence sequence: cases worked by hand, and that it errs no more often than it says however often one looks."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from bottega.skills.confidence_sequence import GRID, STAKES, Bounds, _peak, bounds

STEP = 2 / (GRID - 1)
"""Of the grid, for values within [-1, 1]."""


def capital_by_hand(values: list[float], mean: float) -> float:
    """The highest capital of the mixture that bets on a mean above `mean`; values and mean within [0, 1]."""
    best, capitals = 0.0, [1.0] * len(STAKES)
    for value in values:
        capitals = [c * (1 + stake / mean * (value - mean)) for c, stake in zip(capitals, STAKES)]
        best = max(best, sum(capitals) / len(capitals))
    return best


def low_by_hand(values: list[float], alpha: float) -> float:
    """Where the capital is just 1/alpha, by halving."""
    unit, low, high = [(value + 1) / 2 for value in values], 1e-6, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if capital_by_hand(unit, middle) >= 1 / alpha else (low, middle)
    return 2 * low - 1


@pytest.mark.parametrize(
    "values",
    [
        [0.5],
        [1.0] * 6,
        [0.2, 0.3, 0.25, 0.3, 0.2, 0.4, 0.1, 0.3],
        [1, -1, 1, 1, -1, 1, 1, 1],
        [-0.4] * 10,
        [0.0] * 20,
        [0.9, *[0.0] * 9],
    ],
)
def test_the_bounds_are_the_last_means_that_were_ruled_out(values: list[float]) -> None:
    found = bounds(values, 1.0)
    by_hand = low_by_hand(values, 0.05)
    assert by_hand - STEP - 1e-9 <= found.low <= by_hand + 1e-9, "never above what the bets have ruled out"
    above = -low_by_hand([-value for value in values], 0.05)
    assert above - 1e-9 <= found.high <= above + STEP + 1e-9
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert -1 <= found.low <= found.high <= 1


def test_one_value_by_hand() -> None:
    """One value at the top: the mixture's capital at a mean m is 1 + (1/m - 1) times the mean stake, which must be 20."""
    mean = 1 / (1 + 19 / float(STAKES.mean()))
    assert bounds([1.0], 1.0).low == pytest.approx(2 * mean - 1, abs=STEP)


def test_without_values_nothing_is_known() -> None:
    assert bounds([], 2.0) == Bounds(0.0, -2.0, 2.0)


def test_the_other_side_is_the_mirror() -> None:
    values = [0.3, -0.1, 0.4, 0.2, 0.0, 0.5]
    one, other = bounds(values, 1.0), bounds([-value for value in values], 1.0)
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))


def test_the_scale_does_not_matter() -> None:
    values = [0.3, -0.1, 0.4, 0.2, 0.0, 0.5]
    one, other = bounds(values, 1.0), bounds([3 * value for value in values], 3.0)
    assert (3 * one.low, 3 * one.high) == pytest.approx((other.low, other.high))


def test_what_was_ruled_out_once_stays_ruled_out() -> None:
    """That is what makes looking at every moment allowed: a bound never takes back what it said."""
    draw = np.random.default_rng(2).uniform(-0.3, 0.9, 25)
    looks = [bounds(list(draw[:count]), 1.0) for count in range(1, 26)]
    for earlier, later in itertools.pairwise(looks):
        assert later.low >= earlier.low and later.high <= earlier.high


def test_values_beyond_the_limit_count_as_the_limit() -> None:
    assert bounds([5.0, -7.0, 0.5], 1.0) == bounds([1.0, -1.0, 0.5], 1.0)


@pytest.mark.parametrize(("largest", "alpha"), [(0.0, 0.05), (-1.0, 0.05), (1.0, 0.0), (1.0, 1.0)])
def test_limits_that_make_no_sense_are_refused(largest: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        bounds([0.1], largest, alpha)


def test_long_luck_is_no_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bounds([1.0] * 300, 1.0).low > 0.9
        assert bounds([-1.0] * 300, 1.0).high < -0.9


NULLS: dict[str, Callable[[np.random.Generator, float, tuple[int, int]], np.ndarray]] = {
    "all or nothing": lambda chance, mean, size: np.where(chance.random(size) < mean, 1.0, 0.0),
    "rare luck": lambda chance, mean, size: np.where(chance.random(size) < (mean - 0.5) / 0.5, 1.0, 0.5),
    "rare misfortune": lambda chance, mean, size: np.where(chance.random(size) < 0.1, 0.0, mean / 0.9),
    "noise": lambda chance, mean, size: chance.uniform(2 * mean - 1, 1.0, size),
}


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_a_card_without_a_gain_is_let_through_no_more_often_than_said(null: str, alpha: float) -> None:
    """At the edge of the hypothesis, looking after every one of 60 values and stopping at the first that lets it through."""
    mean, runs = (math.log(1.05) / math.log(3) + 1) / 2, 1500
    draws = NULLS[null](np.random.default_rng(17), mean, (runs, 60))
    assert draws.mean() == pytest.approx(mean, abs=0.01)
    grown = 1 + STAKES[None, :, None] / mean * (draws[:, None, :] - mean)
    through = (np.cumprod(grown, axis=2).mean(axis=1).max(axis=1) >= 1 / alpha).mean()
    assert through <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)
    by_formula = float(np.cumprod(grown[0], axis=1).mean(axis=0).max())
    assert by_formula == pytest.approx(float(_peak(draws[0], np.array([mean]))[0]), rel=1e-6)


@pytest.mark.rotates
def test_what_is_let_through_is_told_by_the_bound() -> None:
    mean, chance = 0.6, np.random.default_rng(3)
    agreed = 0
    for _ in range(40):
        draw = np.where(chance.random(30) < 0.75, 1.0, 0.0)
        ruled_out = float(_peak(draw, np.array([mean]))[0]) >= 20
        assert (bounds(list(2 * draw - 1), 1.0).low >= 2 * mean - 1 - 1e-12) == ruled_out
        agreed += ruled_out
    assert 0 < agreed < 40


def test_a_clear_gain_shows_in_ten() -> None:
    chance = np.random.default_rng(5)
    shown = sum(bounds(list(chance.normal(0.65, 0.1, 10)), math.log(3)).low > math.log(1.05) for _ in range(20))
    assert shown >= 18
