"""Packing: rows of unequal length laid end to end into packs of a fixed number of tokens, so that no step computes padding.

A pack is one flat sequence of documents. Positions begin anew with each, and attention never crosses a boundary, so a packed row
has the loss and the gradients that it would have alone. The plan of an epoch is a pure function of lengths and seed: a run that
is resumed in the middle of one makes the same plan again and goes on at its place.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bottega.train.rows import STREAMS, TrainRow

WINDOW = 16
"""Steps whose rows are packed together: enough choice to fill packs, few enough that the order stays random."""
FEWEST_DOCUMENTS = 64


def bins(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Best fit, longest first: indices by pack, no pack above `size`. What is longer than a pack is an error."""
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    if order and lengths[order[0]] > size:
        raise ValueError(f"a row of {lengths[order[0]]} tokens does not fit a pack of {size}")
    packs: list[list[int]] = []
    free: list[tuple[int, int]] = []  # (room, pack), sorted
    for number in order:
        place = bisect.bisect_left(free, (lengths[number], -1))
        if place == len(free):
            room, pack = size, len(packs)
            packs.append([])
        else:
            room, pack = free.pop(place)
        packs[pack].append(number)
        bisect.insort(free, (room - lengths[number], pack))
    return packs


def plan(lengths: Sequence[int], size: int, packs: int, seed: int, rows: int | None = None) -> list[list[list[int]]]:
    """One epoch in random order: for each step its packs, for each pack its rows.

    A step has `packs` packs, whatever rows fit in them; or exactly `rows` rows, in as many packs as they need.
    """
    source = random.Random(seed)
    order = list(range(len(lengths)))
    source.shuffle(order)
    if rows is not None:
        groups = [order[begin : begin + rows] for begin in range(0, len(order), rows)]
        return [_packed(group, lengths, size) for group in groups]
    steps: list[list[list[int]]] = []
    kept: list[list[int]] = []
    for window in _windows(order, lengths, size * packs * WINDOW):
        found = _packed(window, lengths, size)
        source.shuffle(found)
        kept += found
        while len(kept) >= packs:
            steps.append(kept[:packs])
            kept = kept[packs:]
    if kept:
        steps.append(kept)
    return steps


def _packed(numbers: Sequence[int], lengths: Sequence[int], size: int) -> list[list[int]]:
    return [[numbers[place] for place in pack] for pack in bins([lengths[number] for number in numbers], size)]


def _windows(order: Sequence[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    windows: list[list[int]] = [[]]
    filled = 0
    for number in order:
        if filled + lengths[number] > tokens and windows[-1]:
            windows.append([])
            filled = 0
        windows[-1].append(number)
        filled += lengths[number]
    return windows if windows[-1] else []


@dataclass(frozen=True, eq=False)
class TrainPack:
    """Tensors of one forward pass. `places` and everything after it have one entry for each token that counts."""

    ids: Tensor
    """[T]"""
    positions: Tensor
    """[T], from 0 in each document."""
    starts: Tensor
    """[D + 1] int32: where each document begins, and the end. Filled up with the end, so that few shapes occur."""
    lengths: tuple[int, ...]
    """Of the documents, without padding."""
    longest: int
    places: Tensor
    """[N]: where the token before the one that counts lies."""
    targets: Tensor
    """[N]: the token that counts."""
    streams: dict[str, Tensor]
    """[N] each, float32; see `TrainRow`. Padding has weight 0 everywhere."""
    counted: int
    """How many of the N are no padding."""
    owners: tuple[tuple[int, int], ...]
    """For each row: its number among those given, and how many tokens of it count."""
    answers: int

    @property
    def tokens(self) -> int:
        """Without padding."""
        return sum(self.lengths)

    def to(self, device: torch.device | str) -> TrainPack:
        moved: dict[str, Any] = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("ids", "positions", "starts", "places", "targets")
        }
        streams = {name: stream.to(device, non_blocking=True) for name, stream in self.streams.items()}
        return replace(self, **moved, streams=streams)


def pack(rows: Sequence[TrainRow], numbers: Sequence[int] | None = None, size: int | None = None, chunk: int = 1) -> TrainPack:
    """Rows end to end. With a `size` it is filled up to that many tokens; `chunk`: what the count of learned tokens is a multiple of."""
    if not rows:
        raise ValueError("a pack needs at least one row")
    lengths = [len(row) for row in rows]
    padding = 0 if size is None else size - sum(lengths)
    if padding < 0:
        raise ValueError(f"rows of {sum(lengths)} tokens do not fit a pack of {size}")
    longest = max(lengths)
    documents = lengths + [min(longest, padding - at) for at in range(0, padding, longest)]
    ids = np.concatenate([row.ids for row in rows] + [np.zeros(padding, np.int32)])
    positions = np.concatenate([np.arange(length) for length in documents])
    ends = np.cumsum([0, *documents])
    bounds = np.full(_rounded(len(documents)) + 1, ends[-1]) if size is not None else ends
    bounds[: len(ends)] = ends
    learned = np.concatenate([row.learned for row in rows])
    wanted = np.flatnonzero(learned)
    spare = -len(wanted) % chunk if len(wanted) else chunk
    fill = np.zeros(spare, np.int64)
    streams = {}
    for name in STREAMS:
        values = np.concatenate([getattr(row, name) for row in rows])[wanted]
        streams[name] = torch.from_numpy(np.concatenate([values, fill.astype(np.float32)]).astype(np.float32))
    return TrainPack(
        ids=torch.from_numpy(ids.astype(np.int64)),
        positions=torch.from_numpy(positions.astype(np.int64)),
        starts=torch.from_numpy(bounds.astype(np.int32)),
        lengths=tuple(lengths),
        longest=longest,
        places=torch.from_numpy(np.concatenate([wanted - 1, fill])),
        targets=torch.from_numpy(np.concatenate([ids[wanted].astype(np.int64), fill])),
        streams=streams,
        counted=len(wanted),
        owners=tuple((number, int(row.learned.sum())) for number, row in zip(numbers or range(len(rows)), rows)),
        answers=sum(row.answers for row in rows),
    )


def without_weights(packed: TrainPack) -> TrainPack:
    """The same pack with nothing to learn: every gradient of it is 0."""
    streams = {name: torch.zeros_like(stream) for name, stream in packed.streams.items()}
    return replace(packed, streams=streams, counted=0, answers=0)


def by_row(packs: Sequence[TrainPack], values: Sequence[Tensor]) -> list[np.ndarray]:
    """Values of the tokens that count, pack by pack, sorted to the rows that the packs were made of."""
    found: dict[int, np.ndarray] = {}
    for packed, own in zip(packs, values, strict=True):
        parts, at = own.float().cpu().numpy(), 0
        for number, count in packed.owners:
            found[number] = parts[at : at + count]
            at += count
    return [found[number] for number in sorted(found)]


def _rounded(count: int) -> int:
    return max(FEWEST_DOCUMENTS, 1 << (count - 1).bit_length())
