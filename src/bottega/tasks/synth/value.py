"""The value between two operators of a graph: a shape whose lengths may have names, and the typical distribution of its elements.

Typical contents are a small table of numbers, `DRAWS` independent inputs by `ELEMENTS` places of the tensor, carried through every operator
by its law. They tell before anything runs whether an output would be constant, averaged away, zero or infinite: what makes a task worthless.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS, ELEMENTS = 16, 32
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "bool": 1}
LARGEST = {"float32": 3e4, "float16": 8e2, "bfloat16": 3e3}
"""Beyond this a typical value is too large for what follows to stay finite and precise."""
SMALLEST = 5e-4
LEAST_CHANGE = 0.05
"""Relative change between independent inputs; the judge calls a task averaged below 0.02."""
MOST_ALIKE = 0.8
"""Share of elements that may have one and the same value."""

Table = NDArray[np.float64]
Shape = tuple[int, ...]


class Size(int):
    """A length that has a name in the source: `batch_size`, `in_channels`."""

    name: str

    def __new__(cls, value: int, name: str) -> Size:
        size = super().__new__(cls, value)
        size.name = name
        return size

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.name


@dataclass(frozen=True)
class Value:
    shape: Shape
    layout: str
    """`vector` (N), `rows` (B, F), `sequence` (B, S, D), `ncl`, `nchw`, `ncdhw`, `heads` (B, H, S, D), `matrix`, `scalar`, `tokens` or `other`."""
    typical: Table
    dtype: str = "float32"
    sign: str = "any"
    """`any`, `nonnegative`, `positive` (not near zero) or `unit` (between 0 and 1)."""
    marks: frozenset[str] = frozenset()
    """`centred` (its mean is zero), `shares` (it sums to one), `unit_norm`: what makes some reductions say nothing."""

    @property
    def numel(self) -> int:
        return count(self.shape)

    @property
    def bytes(self) -> int:
        return self.numel * BYTES[self.dtype]


def count(shape: Shape) -> int:
    total = 1
    for length in shape:
        total *= int(length)
    return total


def named(value: Any) -> str | None:
    return value.name if isinstance(value, Size) else None


def gaussian(rng: Random, mean: float = 0.0, deviation: float = 1.0) -> Table:
    return np.array([[rng.gauss(mean, deviation) for _ in range(ELEMENTS)] for _ in range(DRAWS)])


def even(rng: Random, low: float = 0.0, high: float = 1.0) -> Table:
    return np.array([[rng.uniform(low, high) for _ in range(ELEMENTS)] for _ in range(DRAWS)])


def parts(table: Table) -> tuple[Table, Table]:
    """What an element is on average over inputs, and how far it moves from that, by element."""
    middle = table.mean(axis=0)
    return middle, table.std(axis=0, ddof=1)


def mixed(table: Table, fan: int, rng: Random, gain: float = 3**-0.5, bias: bool = True) -> Table:
    """A layer with torch's own initialisation: every output is a random mixture of `fan` inputs."""
    middle, spread = parts(table)
    swing = float((spread**2).mean())
    steady = max(0.0, float((middle**2).mean()) - swing / DRAWS)
    base = np.array([rng.gauss(0, gain * steady**0.5) for _ in range(ELEMENTS)])
    if bias:
        base = base + np.array([rng.uniform(-1, 1) / max(fan, 1) ** 0.5 for _ in range(ELEMENTS)])
    return base + gaussian(rng, 0.0, gain * swing**0.5)


def product(one: Table, two: Table, depth: int, rng: Random) -> Table:
    """A sum of `depth` products of independent elements."""
    mean = float(one.mean() * two.mean())
    square = float((one**2).mean() * (two**2).mean())
    return gaussian(rng, depth * mean, (depth * max(square - mean**2, 0.0)) ** 0.5)


def averaged(table: Table, over: int, rng: Random, total: bool = False) -> Table:
    """The mean (or sum) of `over` elements: what differs between inputs shrinks, what is common stays."""
    middle, spread = parts(table)
    swing = float((spread**2).mean()) ** 0.5
    centre = float(middle.mean())
    own = max(0.0, float(((middle - centre) ** 2).mean()) - swing**2 / DRAWS) ** 0.5
    if abs(centre) < 2 * max(swing, own) / (DRAWS * ELEMENTS) ** 0.5:
        centre = 0.0  # indistinguishable from zero in so small a table
    base = np.array([rng.gauss(centre, own / min(over, 16) ** 0.5) for _ in range(ELEMENTS)])
    result: Table = base + gaussian(rng, 0.0, swing / max(over, 1) ** 0.5) + _common(table, swing)
    return result * over if total else result


def _common(table: Table, swing: float) -> Table:
    """What all elements of one input share, such as a scale that was drawn for it: no average takes that away."""
    shifts = table.mean(axis=1, keepdims=True)
    if float(shifts.var(ddof=1)) < 4 * swing**2 / ELEMENTS:
        return np.zeros_like(shifts)
    shared: Table = shifts - shifts.mean()
    return shared


def extreme(table: Table, over: int, rng: Random, sign: int = 1) -> Table:
    """The largest (or smallest) of `over` elements."""
    if over <= 1:
        return table
    flat = np.sort(table.ravel() * sign)
    spread = float(flat.std())
    if over < 64:
        picks = [[max(rng.choice(flat) for _ in range(min(over, 12))) for _ in range(ELEMENTS)] for _ in range(DRAWS)]
        return np.array(picks) * sign
    reach = (2 * np.log(over)) ** 0.5
    bounded = flat[-1] - flat[-8] < 0.05 * spread  # a ceiling, such as that of a uniform input
    top = flat[-1] if bounded else float(flat.mean()) + reach * spread
    result: Table = (top + gaussian(rng, 0.0, spread / over if bounded else 0.4 * spread / reach)) * sign
    return result


def fault(value: Value) -> str:
    """Why these contents would make a poor output; empty when they would not."""
    table = value.typical
    if value.dtype in ("int64", "bool"):
        return ""
    if not np.isfinite(table).all():
        return "not finite"
    size = float((table**2).mean()) ** 0.5
    if size > LARGEST[value.dtype] or float(np.abs(table).max()) > 30 * LARGEST[value.dtype]:
        return "too large"
    if size < SMALLEST:
        return "near zero"
    change = float((table.var(axis=0, ddof=1)).mean() * 2) ** 0.5 / size
    if change < LEAST_CHANGE:
        return "averaged"
    _, counts = np.unique(table, return_counts=True)
    return "mostly one value" if counts.max() > MOST_ALIKE * table.size else ""
