"""The paired statistics against hand-worked cases, and against simulated noise of several shapes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from bottega.core.verdict import Outcome, Speedup
from bottega.judge.statistics import decided, hodges_lehmann, interval, narrow, speed_outcome, width


def test_centre_is_the_median_of_pairwise_averages() -> None:
    # Walsh averages of 1, 2, 10: 1, 1.5, 2, 5.5, 6, 10.
    assert hodges_lehmann([10.0, 1.0, 2.0])[0] == (2 + 5.5) / 2


def test_one_value_is_its_own_interval() -> None:
    assert hodges_lehmann([3.0]) == (3.0, 3.0, 3.0)


def test_no_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        hodges_lehmann([])


def test_interval_of_twelve_takes_the_seventh_average_from_each_end() -> None:
    """The signed-rank sum of twelve has mean 39 and deviation 12.75: six averages lie outside 99 % at either end."""
    values = [float(2**n) for n in range(12)]
    averages = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    centre, low, high = hodges_lehmann(values)
    assert low == averages[6]
    assert high == averages[-7]
    assert low < centre < high


def test_eight_values_give_their_whole_range() -> None:
    """With eight, only the extremes are 99 % sure: two signs in 256 miss."""
    values = [5.0, 1.0, 2.0, 9.0, 4.0, 3.0, 8.0, 7.0]
    assert hodges_lehmann(values)[1:] == (1.0, 9.0)


def test_a_few_preempted_calls_do_not_move_the_estimate() -> None:
    calm = [math.log(2)] * 20
    assert hodges_lehmann([*calm, 50.0, -50.0])[0] == pytest.approx(math.log(2))
    centre, low, high = hodges_lehmann([*calm, 50.0])
    assert (centre, low) == (pytest.approx(math.log(2)), pytest.approx(math.log(2)))
    assert high == pytest.approx(math.log(2))


def test_shift_and_reflection_carry_through() -> None:
    values = [0.3, -0.1, 0.2, 0.9, 0.5, 0.05, -0.4, 0.35, 0.6]
    centre, low, high = hodges_lehmann(values)
    assert hodges_lehmann([v + 7 for v in values]) == pytest.approx((centre + 7, low + 7, high + 7))
    assert hodges_lehmann([-v for v in values]) == pytest.approx((-centre, -high, -low))


def gaussian(source: random.Random) -> float:
    return source.gauss(0, 1)


def heavy(source: random.Random) -> float:
    """Student's t with two degrees of freedom: no variance."""
    return source.gauss(0, 1) / math.sqrt(source.expovariate(1.0))


def two_modes(source: random.Random) -> float:
    """A machine that sometimes runs at another clock, on either runner."""
    return source.gauss(source.choice([-3.0, 0.0, 0.0, 3.0]), 0.2)


@pytest.mark.parametrize("noise", [gaussian, heavy, two_modes])
@pytest.mark.parametrize("size", [8, 12, 24])
def test_interval_holds_the_truth_in_ninety_nine_of_a_hundred(noise: Callable[[random.Random], float], size: int) -> None:
    source = random.Random(2024)
    repeats, missed = 600, 0
    for _ in range(repeats):
        _, low, high = hodges_lehmann([0.7 + noise(source) for _ in range(size)])
        missed += not low <= 0.7 <= high
    assert missed / repeats <= 0.025  # 1 % expected, with room for six hundred draws


@pytest.mark.parametrize("noise", [gaussian, heavy])
def test_interval_is_not_wide_for_nothing(noise: Callable[[random.Random], float]) -> None:
    """It must miss now and then at a lower confidence, or it would say nothing."""
    source = random.Random(7)
    missed = 0
    for _ in range(400):
        _, low, high = hodges_lehmann([noise(source) for _ in range(16)], confidence=0.8)
        missed += not low <= 0 <= high
    assert 0.12 < missed / 400 < 0.28


def test_speedup_of_exact_pairs_is_widened_by_the_floor_alone() -> None:
    speedup = interval([200.0] * 12, [100.0] * 12, 0.02)
    assert speedup.point == pytest.approx(2.0)
    assert speedup.low == pytest.approx(2.0 * math.exp(-0.02))
    assert speedup.high == pytest.approx(2.0 * math.exp(0.02))


def test_fewer_than_six_pairs_are_never_sure() -> None:
    speedup = interval([110.0] * 5, [100.0] * 5, 0.0)
    assert speed_outcome(speedup) is Outcome.AMBIGUOUS
    assert speed_outcome(interval([110.0] * 8, [100.0] * 8, 0.0)) is Outcome.FASTER


def test_pairs_without_a_time_are_left_out() -> None:
    assert interval([0.0, *[200.0] * 8], [5.0, *[100.0] * 8], 0.0).point == pytest.approx(2.0)
    nothing = interval([0.0], [1.0], 0.0)
    assert (nothing.low, nothing.high) == (0.0, math.inf)
    assert speed_outcome(nothing) is Outcome.AMBIGUOUS
    assert not decided(nothing)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (1.001, 1.2, Outcome.FASTER),
        (0.5, 0.999, Outcome.SLOWER),
        (0.97, 1.03, Outcome.SAME),
        (1 / 1.05, 1.05, Outcome.SAME),
        (0.94, 1.01, Outcome.AMBIGUOUS),
        (0.99, 1.06, Outcome.AMBIGUOUS),
        (1.0, 1.5, Outcome.AMBIGUOUS),
        (1.0, 1.0, Outcome.SAME),
    ],
)
def test_outcome_of_an_interval(low: float, high: float, outcome: Outcome) -> None:
    assert speed_outcome(Speedup((low * high) ** 0.5, low, high)) is outcome


def test_decided_when_narrow_or_clear() -> None:
    assert decided(Speedup(1.0, 0.99, 1.01))
    assert decided(Speedup(2.0, 1.9, 2.1))
    assert not decided(Speedup(1.0, 0.9, 1.1))
    assert not decided(Speedup(2.0, 1.2, 3.0))


def test_narrow_against_what_no_sample_takes_away() -> None:
    speedup = Speedup(1.0, math.exp(-0.03), math.exp(0.03))
    assert width(speedup) == pytest.approx(0.06)
    assert narrow(speedup, 0.04)
    assert not narrow(speedup, 0.02)
    assert not narrow(Speedup(1.0, 0.0, 2.0), 0.04)
    assert not narrow(Speedup(1.0, 0.5, math.inf), 0.04)
