"""Whether two outputs of a call share memory: whoever changes one would change the other.

Views of one buffer, as of a product that is cut into three, may lie between each other's elements and share none. So elements count, not extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_STEPS = 1 << 14
"""Of the search for common elements. Strides that are nested, as those of all usual views, take a few; what takes more counts as apart."""


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies."""

    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    """In elements."""
    width: int
    """Bytes of an element."""

    @property
    def end(self) -> int:
        return self.address + self.width * (1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride)))


def any_overlap(places: Sequence[TensorPlace]) -> bool:
    there = [each for each in places if 0 not in each.shape and len(each.shape) == len(each.stride)]
    search, begun = _Search(), list[TensorPlace]()
    for one in sorted(there, key=lambda each: each.address):
        begun = [other for other in begun if other.end > one.address]
        for other in begun:
            if search.overlap(other, one):
                return True
            if search.left < 0:
                return False
        begun.append(one)
    return False


class _Search:
    """For elements that two tensors have in common. The steps of all pairs together are bounded: what a process says may be anything."""

    def __init__(self) -> None:
        self.left = MOST_STEPS
        self.terms: list[tuple[int, int]] = []
        """Bytes of a step, and how many there are at most."""
        self.lowest: list[int] = []
        self.highest: list[int] = []
        """What the terms from a place on can add."""

    def overlap(self, one: TensorPlace, two: TensorPlace) -> bool:
        if one.end <= two.address or two.end <= one.address:
            return False
        terms = [(one.width * step, size - 1) for size, step in zip(one.shape, one.stride)]
        terms += [(-two.width * step, size - 1) for size, step in zip(two.shape, two.stride)]
        self.terms = sorted(((step, most) for step, most in terms if step and most), key=lambda term: -abs(term[0]))
        self.lowest, self.highest = [0], [0]
        for step, most in reversed(self.terms):
            self.lowest.insert(0, self.lowest[0] + min(0, step * most))
            self.highest.insert(0, self.highest[0] + max(0, step * most))
        distance = two.address - one.address
        return self._reaches(0, distance - one.width + 1, distance + two.width - 1)

    def _reaches(self, place: int, low: int, high: int) -> bool:
        """Whether the terms from `place` on can add up to something in this range."""
        self.left -= 1
        if self.left < 0 or self.lowest[place] > high or self.highest[place] < low:
            return False
        if place == len(self.terms):
            return True
        step, most = self.terms[place]
        near, far = low - self.highest[place + 1], high - self.lowest[place + 1]
        near, far = (near, far) if step > 0 else (far, near)
        number, last = max(0, -(-near // step)), min(most, far // step)
        while number <= last and self.left >= 0:
            if self._reaches(place + 1, low - step * number, high - step * number):
                return True
            number += 1
        return False
