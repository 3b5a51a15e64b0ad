"""Returns, worked out by hand."""

from __future__ import annotations

import math
from typing import Literal

import pytest

from bottega.train.returns import returns


@pytest.mark.parametrize(
    ("kind", "gamma", "expected"),
    [
        ("sum", 1.0, [6.0, 5.0, 3.0]),
        ("sum", 0.5, [1 + 1 + 0.75, 2 + 1.5, 3.0]),
        ("sum", 0.0, [1.0, 2.0, 3.0]),
        ("max", 1.0, [3.0, 3.0, 3.0]),
        ("max", 0.5, [1.0, 2.0, 3.0]),
        ("max", 0.8, [1.92, 2.4, 3.0]),
    ],
)
def test_three_turns_by_hand(kind: Literal["sum", "max"], gamma: float, expected: list[float]) -> None:
    assert returns([1.0, 2.0, 3.0], kind, gamma) == pytest.approx(expected)


def test_a_fall_at_the_end_costs_a_maximum_nothing() -> None:
    assert returns([1.0, 4.0, 0.0], "max", 1.0) == [4.0, 4.0, 0.0]
    assert returns([-1.0, -1.0], "max", 0.5) == [-0.5, -1.0]


@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_turn_nobody_judged_has_no_return_and_costs_the_others_only_its_place(missing: float | None) -> None:
    assert returns([1.0, missing, 3.0], "sum", 0.5) == [1.75, None, 3.0]
    assert returns([1.0, missing, 3.0], "max", 1.0) == [3.0, None, 3.0]
    assert returns([missing], "sum", 1.0) == [None]
    assert returns([], "sum", 1.0) == []


def test_a_discount_above_one_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma"):
        returns([1.0], "sum", 1.1)
