"""Outputs as they lie in a side's own memory when it says that its call has returned, on a CPU.

Where they must go is told only after that word, and whoever says it before its outputs exist writes them there in the first place and saves
the copy. So now and then a side is stopped at that word, and elements at random places are read where it says that its outputs lie.
They must be those that it hands over. A turn with such a stop is not timed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.judge.secret import places
from bottega.sandbox.control import Keeper

ELEMENTS = 32
"""Read of each output anywhere, and as many where it says something: most of a mask is zero, and so is memory that was never written."""
MOST_OUTPUTS = 64
OVERWRITTEN = 4096
"""Elements in all."""
SEARCHED = 1 << 22
"""Elements of an output among which those are looked for."""


@dataclass
class Presence:
    """Elements of some outputs, as they were found."""

    places: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """Number of the output, and index in it."""
    found: list[bytes] = field(default_factory=list)
    missing: bool = False
    """Something could not be read where it was said to lie."""

    @classmethod
    def read(cls, where: Any, expected: Sequence[torch.Tensor], reins: Keeper) -> Presence:
        """`where` is the side's word: address and strides of each output. `expected` is what the reference returned for the same inputs."""
        presence = cls()
        regions: list[tuple[int, int]] = []
        chosen = list(range(len(expected)))
        secrets.SystemRandom().shuffle(chosen)
        try:
            for number in chosen[:MOST_OUTPUTS]:
                tensor = expected[number]
                address, strides = int(where[number][0]), [int(stride) for stride in where[number][1]]
                if len(strides) != tensor.dim():
                    continue  # of another shape, which will be seen
                width = tensor.dtype.itemsize
                for index in _indices(tensor):
                    place = address + width * sum(i * stride for i, stride in zip(index, strides))
                    if not 0 <= place < 1 << 63:
                        raise ValueError("no address")
                    presence.places.append((number, index))
                    regions.append((place, width))
            presence.found = (reins.read_memory(regions) if regions else []) or []
        except (TypeError, ValueError, IndexError, KeyError, OverflowError):
            presence.missing = True
        presence.missing = presence.missing or len(presence.found) != len(presence.places)
        return presence

    def is_what_came(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether these elements are those of the outputs that were handed over."""
        return not self.missing and all(
            number < len(outputs)
            and len(index) == outputs[number].dim()
            and bytes(outputs[number][index].reshape(1).view(torch.uint8).tolist()) == found
            for (number, index), found in zip(self.places, self.found)
        )


def scattered(where: Any, outputs: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Address and length of elements all over the outputs, of which `Presence` has seen that `where` is true."""
    regions = []
    for number, tensor in list(enumerate(outputs))[:MOST_OUTPUTS]:
        address, strides, width = where[number][0], where[number][1], tensor.dtype.itemsize
        chosen = places(tensor.numel(), OVERWRITTEN // min(len(outputs), MOST_OUTPUTS) if tensor.numel() else 0)
        for index in _as_indices(chosen, tensor):
            regions.append((address + width * sum(i * stride for i, stride in zip(index, strides)), width))
    return regions


def _as_indices(chosen: torch.Tensor, tensor: torch.Tensor) -> list[tuple[int, ...]]:
    return list(zip(*(each.tolist() for each in torch.unravel_index(chosen, tensor.shape)))) if tensor.dim() else [()]


def _indices(tensor: torch.Tensor) -> list[tuple[int, ...]]:
    """Random places in the reference's output, and random ones of those that differ from what it begins with."""
    if not tensor.numel():
        return []
    chosen = places(tensor.numel(), ELEMENTS)
    start = secrets.randbelow(max(1, tensor.numel() - SEARCHED))
    values = tensor.reshape(-1)[start : start + SEARCHED]
    telling = (values.contiguous().view(torch.uint8) != values[:1].view(torch.uint8).repeat(values.numel())).nonzero().view(-1)
    if telling.numel():
        found = telling[places(telling.numel(), ELEMENTS)] // tensor.dtype.itemsize + start
        chosen = torch.cat([chosen, found])
    return _as_indices(chosen, tensor)
