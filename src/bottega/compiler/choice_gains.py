"""What choices gained where they were measured, and so what to expect of them elsewhere: the search of knobs begins with those that promise most.

An expectation is a mean over the same choice at like places on the same device, weighted by how alike they are, with one observation of "gains
nothing" beside them. It is no network: a measurement counts as soon as it is added, an unknown device or kernel promises nothing, and every
expectation can be traced to its rows. It decides the order of measuring, and nothing else.
"""

from __future__ import annotations

import functools
import json
import lzma
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from bottega.compiler.choice_places import ChoicePlace

LIKE_FUNCTIONS = (
    ("linear", "matmul", "mm", "bmm"), ("conv1d", "conv2d", "conv3d"), ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"), ("cumsum", "cumprod"),
)  # fmt: skip
"""Functions with the same kernels or the same choices, which tell of each other."""
SIZES = ("rows", "columns", "depth", "batch", "channels", "elements")
DOUBLINGS = 1.5
"""Of a size, that make a place as unlike as another function or data type does."""
NOTHING = 1.0
"""Weight of the observation that a choice gains nothing."""
WORST = 0.5
"""What a choice counts as that is much slower, or not right."""


@dataclass(frozen=True)
class MeasuredChoice:
    device: str
    """Its name: an NVIDIA H200 tells nothing of another card."""
    dtype: str
    function: str
    """A library function, or a kind of launch (`choice_places`)."""
    sizes: Mapping[str, int]
    choice: str
    """`tile=(128, 64, 32), warps=4`."""
    gain: float
    """Times as fast as the kernel as it was; 0 where it was not right."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasuredChoice:
        """Raises ValueError, TypeError, KeyError, AttributeError or OverflowError for what is none."""
        sizes = {str(name): int(size) for name, size in data["sizes"].items()}
        device, dtype, function, choice = (str(data[name]) for name in ("device", "dtype", "function", "choice"))
        return cls(device, dtype, function, sizes, choice, float(data["gain"]))


class ChoiceGains:
    def __init__(self, rows: Iterable[MeasuredChoice] = ()) -> None:
        self._known: dict[tuple[str, str, str], list[tuple[MeasuredChoice, tuple[float, ...], float]]] = defaultdict(list)
        for row in rows:
            self.add(row)

    def add(self, row: MeasuredChoice) -> None:
        known = self._known[row.device, _group(row.function), row.choice]
        known.append((row, _doublings(row.sizes), math.log(max(WORST, row.gain))))

    def copy(self) -> ChoiceGains:
        """What is added to it is not added here."""
        return ChoiceGains(row for rows in self._known.values() for row, _, _ in rows)

    def expected(self, device: str, dtype: str, place: ChoicePlace, choice: str) -> float:
        """Times as fast; 1 where nothing is known."""
        sizes, weights, total = _doublings(place.sizes), NOTHING, 0.0
        for row, row_sizes, gain in self._known.get((device, _group(place.function), choice), ()):
            unlike = sum((one - other) ** 2 for one, other in zip(sizes, row_sizes)) / DOUBLINGS**2
            unlike += (row.dtype != dtype) + (row.function != place.function)
            weight = math.exp(-unlike / 2)
            weights += weight
            total += weight * gain
        return math.exp(total / weights)


@functools.cache
def shipped_gains() -> ChoiceGains:
    """What came along, of all devices. `benchmarks/choice_order.py pack` writes such a file from a sweep."""
    folder = files("bottega.compiler") / "measured_choices"
    return ChoiceGains(row for path in folder.iterdir() if path.name.endswith(".jsonl.xz") for row in read_measured(path))


def read_measured(path: Traversable) -> Iterator[MeasuredChoice]:
    """The device stands in the first line, for all."""
    device, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    for line in lines:
        yield MeasuredChoice.from_json({**json.loads(device), **json.loads(line)})


def _group(function: str) -> str:
    return next((names[0] for names in LIKE_FUNCTIONS if function in names), function)


def _doublings(sizes: Mapping[str, int]) -> tuple[float, ...]:
    return tuple(math.log2(max(1, sizes.get(name, 1))) for name in SIZES)
