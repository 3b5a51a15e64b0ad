"""Small integers in few bytes: what goes in comes out, at nearly the entropy, and nothing else is taken for it."""

from __future__ import annotations

import numpy as np
import pytest

from bottega.backbone.codec import Levels, moved, packed, rounded, unpacked


def round_trip(levels: Levels) -> Levels:
    return unpacked(packed(levels), levels.integers.shape, levels.top, levels.points)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 5), (7, 64), (100, 577)])
@pytest.mark.parametrize("step", [0.05, 1.0, 3.0])
def test_integers_come_back(shape: tuple[int, int], step: float) -> None:
    levels = rounded(np.random.default_rng(1).standard_t(3, shape).astype(np.float32), step)
    again = round_trip(levels)
    assert np.array_equal(again.integers, levels.integers)
    assert np.array_equal(again.drops, levels.drops)
    assert np.array_equal(again.values(), levels.values())


def test_large_integers_come_back() -> None:
    """A row in which one weight alone changed: hundreds of steps of its own root mean square."""
    delta = np.zeros((3, 40_000), np.float32)
    delta[0, 7], delta[1, 9] = 1.0, -2.0
    levels = rounded(delta, 0.05)
    assert levels.integers.max() > 255
    assert np.array_equal(round_trip(levels).integers, levels.integers)
    assert np.abs(levels.values() - delta).max() < 0.005
    assert not levels.values()[2].any()


def test_the_error_stays_within_a_step() -> None:
    draw = np.random.default_rng(2)
    delta = (draw.standard_normal((64, 300)) * 10.0 ** draw.uniform(-8, -2, (64, 1))).astype(np.float32)
    rms = np.sqrt(np.square(delta, dtype=np.float64).mean(axis=1))
    for step in (0.25, 1.0):
        wrong = np.abs(rounded(delta, step).values() - delta).max(axis=1)
        assert (wrong <= 1.05 * step * rms).all()  # half a step, the step's own grid, and where the middle of a level lies


def test_energy_is_kept_and_the_bytes_are_near_the_entropy() -> None:
    delta = np.random.default_rng(3).standard_normal((600, 1000)).astype(np.float32)
    levels = rounded(delta, 1.0)
    _, counts = np.unique(levels.integers, return_counts=True)
    share = counts / counts.sum()
    entropy = -(share * np.log2(share)).sum()
    bits = 8 * len(packed(levels)) / delta.size
    assert entropy <= bits < 1.03 * entropy
    assert 1 - np.square(levels.values() - delta).sum() / np.square(delta).sum() > 0.91


def test_a_larger_step_costs_less_and_keeps_less() -> None:
    delta = np.random.default_rng(4).laplace(size=(100, 1000)).astype(np.float32)
    found = [rounded(delta, step) for step in (0.5, 1.0, 2.0)]
    sizes = [len(packed(levels)) for levels in found]
    lost = [float(np.square(levels.values() - delta).sum()) for levels in found]
    assert sizes == sorted(sizes, reverse=True)
    assert lost == sorted(lost)


def test_nothing_changed_is_nothing() -> None:
    levels = rounded(np.zeros((4, 9), np.float32), 1.0)
    assert not round_trip(levels).values().any()


def test_other_bytes_are_refused() -> None:
    levels = rounded(np.random.default_rng(5).standard_normal((20, 30)).astype(np.float32), 1.0)
    data = packed(levels)
    for wrong in (data[:10], data[:-1], data + b"x", b"\xff" * len(data)):
        with pytest.raises(ValueError):
            unpacked(wrong, (20, 30), levels.top, levels.points)
    for shape in ((20, 31), (20, 3), (2000, 3000)):  # a header that lies
        with pytest.raises(ValueError):
            unpacked(data, shape, levels.top, levels.points)


def test_what_lies_on_its_levels_stays_there() -> None:
    delta = np.random.default_rng(5).standard_t(3, (50, 400)).astype(np.float32)
    delta[7] = 0.0
    start = rounded(delta, 0.9)
    assert np.array_equal(moved(start.values(), start, np.random.default_rng(0)).integers, start.integers)


@pytest.mark.parametrize("shift", [0.04, -0.04, 0.3])
def test_small_moves_are_kept_in_the_mean_where_the_nearest_level_would_undo_them(shift: float) -> None:
    start = rounded(np.random.default_rng(6).standard_normal((200, 500)).astype(np.float32), 0.9)
    before = start.values()
    steps = before + np.float32(shift)
    by_chance = moved(steps, start, np.random.default_rng(1)).values() - before
    assert abs(float(by_chance.mean()) - shift) < 0.02 * abs(shift) + 0.002
    if abs(shift) < 0.1:
        assert abs(float((rounded(steps, 0.9).values() - before).mean())) < 0.5 * abs(shift)


def test_large_moves_go_to_the_levels_between_which_they_lie() -> None:
    start = rounded(np.random.default_rng(7).standard_normal((20, 300)).astype(np.float32), 0.9)
    wanted = 3 * np.random.default_rng(8).standard_normal((20, 300)).astype(np.float32)
    found = moved(wanted, start, np.random.default_rng(2))
    sizes = start.top * 2.0 ** (-start.drops[:, None].astype(float) / 8)
    assert (np.abs(found.values() - wanted) <= 1.3 * sizes).all() and np.abs(found.integers).max() > 2
    assert np.array_equal(round_trip(found).values(), found.values())
