"""Rows of small numbers as integers, and the integers in few bytes: a difference of weights costs between one and two bits each.

Every row is divided by a step of its own and rounded. Three integers make one byte, large ones stand beside, and zlib's Huffman code
does the rest: about 1 % above the entropy, tens of millions of weights a second when it is read, and nothing but what comes with Python.
A range coder would gain that one percent; LZMA on the integers loses a quarter.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_NEAR = 2
"""Integers up to this size have a symbol of their own; all others share one, and are listed beside."""
_FAR = 2 * _NEAR + 1
_SYMBOLS = _FAR + 1
_LARGEST = 32767
_LENGTHS = struct.Struct("<IIII")
_NOTHING = 255
"""The drop of a row in which nothing changed."""
_OCTAVE = np.array([2.0 ** (-part / 8) for part in range(8)], np.float32)
_SIZES = np.append(np.ldexp(np.tile(_OCTAVE, 32), -np.repeat(np.arange(32, dtype=np.int32), 8))[:_NOTHING], np.float32(0))
"""Of a row's step beside the largest one, by its drop: eight to the octave, and nothing at the end."""
_TRIPLES = np.stack(np.unravel_index(np.arange(256) % _SYMBOLS**3, (_SYMBOLS,) * 3), axis=1).astype(np.int8) - np.int8(_NEAR)
_BAND = 1 << 22
"""Weights that are taken in hand at once, so that an embedding does not need four times its memory."""


@dataclass(frozen=True, eq=False)
class Levels:
    """A matrix as integers, with what is needed to have it back."""

    integers: Array
    """[rows, columns], int16."""
    drops: Array
    """[rows], uint8: how far below the largest a row's step is, in eighths of an octave."""
    top: float
    """The largest step of a row."""
    points: tuple[float, float, float]
    """Where an integer of size 1 and one of size 2 lie, in steps, and how far beyond their own size larger ones do: the means of what fell there.
    The last one is read without its sign, and none is written below 0."""

    def values(self) -> Array:
        """The matrix, rounded: [rows, columns], fp32, to the same bit everywhere."""
        first, second, beyond = (np.float32(point) for point in self.points)
        sizes = np.float32(self.top) * _SIZES[self.drops]
        found = np.empty(self.integers.shape, np.float32)
        middle = np.array([-second, -first, 0, first, second], np.float32)
        for rows in bands(self.integers.shape):
            whole = self.integers[rows]
            far = np.abs(whole) > _NEAR
            found[rows] = middle[np.where(far, 0, whole) + _NEAR]
            if far.any():
                large = whole[far].astype(np.float32)
                found[rows][far] = large + np.copysign(beyond, large)
            found[rows] *= sizes[rows, None]
        return found


def bands(shape: tuple[int, ...]) -> list[slice]:
    """Rows of a matrix that are worked on together."""
    height = max(1, _BAND // max(1, shape[1]))
    return [slice(start, start + height) for start in range(0, shape[0], height)]


def rounded(delta: Array, step: float, dead_zone: float = 0.5) -> Levels:
    """A matrix in integers. `step` is in units of each row's root mean square; what is below `dead_zone` of a step becomes nothing."""
    square = np.concatenate([np.square(delta[rows], dtype=np.float64).mean(axis=1) for rows in bands(delta.shape)])
    wanted = step * np.sqrt(square)
    top = float(np.float32(wanted.max(initial=0.0)))
    drops = np.full(len(delta), _NOTHING, np.uint8)
    some = wanted > top * 2.0**-31 if top > 0 else np.zeros(len(delta), bool)
    drops[some] = np.clip(np.rint(8 * np.log2(top / wanted[some])), 0, _NOTHING - 1)
    sizes = np.float32(top) * _SIZES[drops]
    integers = np.zeros(delta.shape, np.int16)
    sums, counts = np.zeros(3), np.zeros(3)
    for rows in bands(delta.shape):
        part = delta[rows]
        ratio = np.abs(part) / np.where(sizes[rows] > 0, sizes[rows], np.float32(np.inf))[:, None]
        size = np.minimum(np.floor(ratio + np.float32(1 - dead_zone)), _LARGEST)
        integers[rows] = np.copysign(size, part)
        for place, chosen in enumerate((size == 1, size == 2, size > _NEAR)):
            sums[place] += float(ratio[chosen].sum(dtype=np.float64))
            counts[place] += float(chosen.sum())
        sums[2] -= float(size[size > _NEAR].sum(dtype=np.float64))
    means = np.divide(sums, counts, out=np.array([1.0, 2.0, 0.0]), where=counts > 0).astype(np.float32)
    return Levels(integers, drops, top, (float(means[0]), float(means[1]), max(0.0, float(means[2]))))


def moved(delta: Array, start: Levels, chance: np.random.Generator) -> Levels:
    """A matrix on the levels of the one that training began with. What lies between two of them takes one by chance, the nearer one more likely.

    A model that was packed before lies on its levels, and training moves a weight by less than half of a step: rounded to the nearest, nearly
    all of it would be undone. By chance it is right in the mean, over the hundreds of weights that every result is made of. A row that had no
    step has none: nothing was moved there before.
    """
    first, second, beyond = (np.float32(abs(point)) for point in start.points)
    sizes = np.float32(start.top) * _SIZES[start.drops]
    near = np.array([0, first, second, _NEAR + 1 + beyond], np.float32)
    integers = np.zeros(delta.shape, np.int16)
    for rows in bands(delta.shape):
        part = delta[rows]
        ratio = np.abs(part) / np.where(sizes[rows] > 0, sizes[rows], np.float32(np.inf))[:, None]
        far = ratio >= near[-1]
        below = np.where(far, np.floor(ratio - beyond), np.searchsorted(near[1:-1], ratio, side="right"))
        low = np.where(far, below + beyond, near[np.where(far, 0, below).astype(np.int64)])
        gap = np.where(far, np.float32(1), np.diff(near)[np.where(far, 0, below).astype(np.int64)])
        up = chance.random(part.shape, dtype=np.float32) < (ratio - low) / np.maximum(gap, np.float32(1e-6))
        integers[rows] = np.copysign(np.minimum(below + up, _LARGEST), part)
    return replace(start, integers=integers)


def packed(levels: Levels) -> bytes:
    flat = levels.integers.reshape(-1)
    symbols = np.zeros(-(-len(flat) // 3) * 3, np.uint8)
    symbols[:] = _NEAR
    far = np.abs(flat) > _NEAR
    symbols[: len(flat)] = np.where(far, _FAR, flat + _NEAR)
    triples = symbols[0::3] * np.uint8(_SYMBOLS**2) + symbols[1::3] * np.uint8(_SYMBOLS) + symbols[2::3]
    beside = flat[far].astype(np.int32)
    folded = np.where(beside < 0, -2 * beside - 1, 2 * beside).astype(
        np.uint16
    )  # signs in the lowest bit: high bytes are nearly all 0
    parts = [
        _deflated(triples, zlib.Z_HUFFMAN_ONLY),
        _deflated((folded & 255).astype(np.uint8), zlib.Z_HUFFMAN_ONLY),
        _deflated((folded >> 8).astype(np.uint8)),
        _deflated(levels.drops),
    ]
    return _LENGTHS.pack(*map(len, parts)) + b"".join(parts)


def unpacked(data: bytes | memoryview, shape: tuple[int, int], top: float, points: tuple[float, float, float]) -> Levels:
    """Raises `ValueError` where the bytes are not what `packed` made for that shape."""
    if len(data) < _LENGTHS.size:
        raise ValueError("it is cut off")
    lengths = _LENGTHS.unpack_from(data)
    if sum(lengths) + _LENGTHS.size != len(data):
        raise ValueError("its parts are not as long as they say")
    parts, at = [], _LENGTHS.size
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    count = shape[0] * shape[1]
    triples = _inflated(parts[0], -(-count // 3))
    integers = np.empty((len(triples), 3), np.int8)
    for start in range(0, len(triples), _BAND):
        integers[start : start + _BAND] = _TRIPLES[triples[start : start + _BAND]]
    flat = integers.reshape(-1)[:count].astype(np.int16)
    far = np.flatnonzero(flat == _FAR - _NEAR)
    folded = _inflated(parts[1], len(far)).astype(np.int32) | _inflated(parts[2], len(far)).astype(np.int32) << 8
    flat[far] = np.where(folded & 1, -(folded >> 1) - 1, folded >> 1)
    return Levels(flat.reshape(shape), _inflated(parts[3], shape[0]), top, points)


def _deflated(values: Array, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    return coder.compress(values.tobytes()) + coder.flush()


def _inflated(data: bytes | memoryview, count: int) -> Array:
    """Exactly so many bytes: a file that claims otherwise is refused before it fills the memory."""
    reader = zlib.decompressobj(-15)
    try:
        found = reader.decompress(data, count + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(found) != count or reader.decompress(reader.unconsumed_tail, 1) or not reader.eof:
        raise ValueError(f"{len(found)} bytes stand where {count} belong")
    return np.frombuffer(found, np.uint8)
