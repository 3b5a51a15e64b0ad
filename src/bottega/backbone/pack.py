"""Prefill packs: prompts end to end without padding, in a few fixed sizes, each with a CUDA graph of its own.

A long prompt may be spread over several packs; what was read before lies in its pages already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
"""Tokens in a pack. The last bounds the memory for activations."""
TILE = 64
"""Tokens of one attention program."""
PER_END = 32
"""A pack has room for the ends of as many prompts as it has tokens, divided by this."""


@dataclass(frozen=True)
class PrefillSpan:
    """Tokens `begin` to `end` of the prompt in a row of the batch."""

    row: int
    prompt: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class PrefillPack:
    size: int
    flat: npt.NDArray[np.int32]
    """Everything in one array, for one copy to the device; `parts` says what lies where."""


def ends_of(size: int) -> int:
    return max(8, size // PER_END)


def tiles_of(size: int) -> int:
    """A multiple of four, so that every part begins at a multiple of 16 bytes: the kernels are compiled for that once."""
    return -(-(size // TILE + ends_of(size)) // 4) * 4


def length_of(size: int) -> int:
    return 3 * size + 4 * tiles_of(size) + 2 * ends_of(size)


def parts(flat: Any, size: int) -> tuple[Any, Any, Any]:
    """Views of a flat array: [ids, positions, rows] of the tokens; [first token, row, position, count] of the tiles;
    [last token, row] of the prompts that end here."""
    tiles = tiles_of(size)
    cut = 3 * size
    after = cut + 4 * tiles
    return flat[:cut].reshape(3, size), flat[cut:after].reshape(4, tiles), flat[after:].reshape(2, -1)


def pack(pieces: Sequence[PrefillSpan], asleep: int) -> PrefillPack:
    """Side by side in the smallest size that holds them. What is left over belongs to a row that is always asleep."""
    count = sum(piece.end - piece.begin for piece in pieces)
    done = [piece for piece in pieces if piece.end == len(piece.prompt)]
    size = next(size for size in SIZES if size >= count and ends_of(size) >= len(pieces))
    flat = np.zeros(length_of(size), dtype=np.int32)
    tokens, tiles, ends = parts(flat, size)
    tokens[2], tiles[1], ends[1] = asleep, asleep, asleep
    at = tile = end = 0
    for piece in pieces:
        width = piece.end - piece.begin
        tokens[0, at : at + width] = piece.prompt[piece.begin : piece.end]
        tokens[1, at : at + width] = np.arange(piece.begin, piece.end)
        tokens[2, at : at + width] = piece.row
        starts = np.arange(0, width, TILE)
        mine = slice(tile, tile + len(starts))
        tiles[0, mine], tiles[1, mine], tiles[2, mine] = at + starts, piece.row, piece.begin + starts
        tiles[3, mine] = np.minimum(TILE, width - starts)
        at, tile = at + width, tile + len(starts)
        if piece.end == len(piece.prompt):
            ends[:, end] = at - 1, piece.row
            end += 1
    assert end == len(done)
    return PrefillPack(size, flat)


def packs(pieces: Sequence[PrefillSpan], asleep: int) -> Iterator[PrefillPack]:
    """All pieces in their order, cut where a pack is full: who shares pages of another is never read before that one."""
    waiting: list[PrefillSpan] = []
    room, most = SIZES[-1], ends_of(SIZES[-1])
    for whole in pieces:
        begin = whole.begin
        while begin < whole.end:
            end = min(whole.end, begin + room)
            waiting.append(PrefillSpan(whole.row, whole.prompt, begin, end))
            room -= end - begin
            begin = end
            if not room or len(waiting) == most:
                yield pack(waiting, asleep)
                waiting, room = [], SIZES[-1]
    if waiting:
        yield pack(waiting, asleep)
