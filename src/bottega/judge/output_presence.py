"""Checks that outputs exist in a worker's own memory when it reports that its call has returned, on a CPU.

The worker learns where its outputs must go only after that report. One that reports before its outputs exist could compute them there in the
first place and save the copy. So now and then the worker is stopped at that report, and random elements are read at the addresses that it
claims. They must equal what it delivers. Such a call is not timed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.judge.secret import secret_choice, secret_indices
from bottega.sandbox.control import ProcessControl

ELEMENTS = 32
"""Read of each output anywhere, and as many where it differs from its first element: most of a mask is zero, and so is memory never written."""
MOST_OUTPUTS = 64
OVERWRITTEN = 4096
"""Elements in all."""
HIGHEST = 1 << 63
SEARCHED = 1 << 22
"""Elements of an output that are searched for those."""


Places = list[tuple[int, tuple[int, ...]]]
"""Address and strides of each output in a worker's memory."""


def claimed_places(told: Any) -> Places | None:
    """The worker's claim of where its outputs lie, if it is one: whole numbers that an address and strides can be. It is used as it stands
    wherever its memory is read or written."""
    try:
        places = [(address, tuple(strides)) for address, strides in told]
    except (TypeError, ValueError):
        return None
    numbers = [number for address, strides in places for number in (address, *strides)]
    return places if all(type(number) is int and 0 <= number < HIGHEST for number in numbers) else None


@dataclass
class OutputPresence:
    """Elements of some outputs, as they were found."""

    places: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """Number of the output, and index in it."""
    found: list[bytes] = field(default_factory=list)
    missing: bool = False
    """Something could not be read where it was said to lie."""

    @classmethod
    def read(cls, where: Places | None, expected: Sequence[torch.Tensor], control: ProcessControl) -> OutputPresence:
        """`where` is the worker's claim. `expected` is what the reference returned for the same inputs."""
        presence = cls()
        regions: list[tuple[int, int]] = []
        if where is None or len(where) < len(expected):
            return cls(missing=True)
        for number in secret_choice([tensor.nbytes for tensor in expected], MOST_OUTPUTS):
            tensor = expected[number]
            address, strides = where[number]
            if len(strides) != tensor.dim():
                continue  # of another shape, which is reported elsewhere
            width = tensor.dtype.itemsize
            for index in _indices(tensor):
                presence.places.append((number, index))
                regions.append((address + width * sum(i * stride for i, stride in zip(index, strides)), width))
        if any(address >= HIGHEST for address, _ in regions):
            return cls(missing=True)
        presence.found = (control.read_memory(regions) if regions else []) or []
        presence.missing = len(presence.found) != len(presence.places)
        return presence

    def matches(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether these elements are those of the outputs that were handed over."""
        return not self.missing and all(
            number < len(outputs)
            and len(index) == outputs[number].dim()
            and bytes(outputs[number][index].reshape(1).view(torch.uint8).tolist()) == found
            for (number, index), found in zip(self.places, self.found)
        )


def scattered_regions(
    where: Places, outputs: Sequence[torch.Tensor], without: frozenset[int] = frozenset()
) -> list[tuple[int, int]]:
    """Address and length of random elements of the outputs, but for some, whose addresses `OutputPresence` has verified."""
    regions = []
    for number in secret_choice([tensor.nbytes for tensor in outputs], MOST_OUTPUTS):
        if number in without:
            continue
        tensor, (address, strides) = outputs[number], where[number]
        width = tensor.dtype.itemsize
        chosen = secret_indices(tensor.numel(), OVERWRITTEN // min(len(outputs), MOST_OUTPUTS) if tensor.numel() else 0)
        for index in _as_indices(chosen, tensor):
            regions.append((address + width * sum(i * stride for i, stride in zip(index, strides)), width))
    return regions


def _as_indices(chosen: torch.Tensor, tensor: torch.Tensor) -> list[tuple[int, ...]]:
    return list(zip(*(each.tolist() for each in torch.unravel_index(chosen, tensor.shape)))) if tensor.dim() else [()]


def _indices(tensor: torch.Tensor) -> list[tuple[int, ...]]:
    """Random places in the reference's output, and random ones of those that differ from what it begins with."""
    if not tensor.numel():
        return []
    chosen = secret_indices(tensor.numel(), ELEMENTS)
    start = secrets.randbelow(max(1, tensor.numel() - SEARCHED))
    values = tensor.reshape(-1)[start : start + SEARCHED]
    telling = (values.contiguous().view(torch.uint8) != values[:1].view(torch.uint8).repeat(values.numel())).nonzero().view(-1)
    if telling.numel():
        found = telling[secret_indices(telling.numel(), ELEMENTS)] // tensor.dtype.itemsize + start
        chosen = torch.cat([chosen, found])
    return _as_indices(chosen, tensor)
