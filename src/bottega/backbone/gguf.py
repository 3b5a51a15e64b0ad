"""A GGUF file's metadata and tensors, read directly.

transformers reads such files too, but takes half a minute for the embedded model (it walks the vocabulary several times
in Python), and depending on its version hands back the wrong special tokens. The format is a page long; this is all of it
that the embedded model needs.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bottega.core.errors import BackboneError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_BLOCK = 32
"""Elements that share a scale in the quantised types below."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stored:
    """Where one tensor lies, and how it is written."""

    name: str
    shape: tuple[int, ...]
    """As PyTorch orders it: the slowest dimension first."""
    kind: int
    offset: int


class Gguf:
    """An open file. Tensors are made one at a time, in fp32, so that the peak stays near the model's own size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.metadata, self.stored = self._header()
        except (OSError, ValueError, struct.error, UnicodeDecodeError, KeyError) as error:
            raise BackboneError(f"{path} cannot be read as a GGUF file: {error}") from None

    def tensors(self) -> Iterator[tuple[str, Array]]:
        for stored in self.stored:
            yield stored.name, self._tensor(stored)

    def _tensor(self, stored: Stored) -> Array:
        if stored.kind not in _READERS:
            raise BackboneError(
                f"{self.path}: tensor {stored.name} has GGML type {stored.kind}; known here are {sorted(_READERS)} "
                "(F32, F16, Q4_1, Q8_0). Load the file through transformers instead"
            )
        read, elements, size = _READERS[stored.kind]
        count = int(np.prod(stored.shape)) // elements * size
        raw = np.frombuffer(self._bytes, dtype=np.uint8, count=count, offset=stored.offset)
        return np.array(read(raw), dtype=np.float32).reshape(stored.shape)

    def _header(self) -> tuple[dict[str, Any], list[Stored]]:
        if self._bytes[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version, tensors, entries = struct.unpack_from("<IQQ", self._bytes, 4)
        if version not in (2, 3):
            raise ValueError(f"version {version} of the format; 2 and 3 are known")
        at, metadata = 24, {}
        for _ in range(entries):
            key, at = self._string(at)
            (kind,) = struct.unpack_from("<I", self._bytes, at)
            metadata[key], at = self._value(kind, at + 4)
        found: list[Stored] = []
        for _ in range(tensors):
            name, at = self._string(at)
            (rank,) = struct.unpack_from("<I", self._bytes, at)
            *shape, kind, offset = struct.unpack_from(f"<{rank}QIQ", self._bytes, at + 4)
            at += 4 + 8 * rank + 12
            found.append(Stored(name, tuple(reversed(shape)), kind, offset))
        grain = metadata.get("general.alignment", 32)
        start = -(-at // grain) * grain
        return metadata, [Stored(each.name, each.shape, each.kind, start + each.offset) for each in found]

    def _string(self, at: int) -> tuple[str, int]:
        (length,) = struct.unpack_from("<Q", self._bytes, at)
        return self._bytes[at + 8 : at + 8 + length].decode("utf-8"), at + 8 + length

    def _value(self, kind: int, at: int) -> tuple[Any, int]:
        if kind == _STRING:
            return self._string(at)
        if kind != _ARRAY:
            code = "<" + _SCALARS[kind]
            return struct.unpack_from(code, self._bytes, at)[0], at + struct.calcsize(code)
        inner, length = struct.unpack_from("<IQ", self._bytes, at)
        at += 12
        if inner in _SCALARS:
            code = f"<{length}{_SCALARS[inner]}"
            return list(struct.unpack_from(code, self._bytes, at)), at + struct.calcsize(code)
        values = []
        for _ in range(length):
            value, at = self._value(inner, at)
            values.append(value)
        return values, at


def _q8_0(raw: Array) -> Array:
    """Blocks of 32: one half-precision scale, 32 signed bytes."""
    blocks = raw.reshape(-1, 2 + _BLOCK)
    return _half(blocks[:, :2]) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_1(raw: Array) -> Array:
    """Blocks of 32: a half-precision scale and a minimum, 16 bytes with two elements each, the first half in the low bits."""
    blocks = raw.reshape(-1, 4 + _BLOCK // 2)
    packed = blocks[:, 4:]
    nibbles = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    return _half(blocks[:, :2]) * nibbles + _half(blocks[:, 2:4])


def _half(pairs: Array) -> Array:
    return np.ascontiguousarray(pairs).view("<f2").astype(np.float32)


_READERS: dict[int, tuple[Callable[[Array], Array], int, int]] = {
    0: (lambda raw: raw.view("<f4"), 1, 4),
    1: (lambda raw: raw.view("<f2"), 1, 2),
    3: (_q4_1, _BLOCK, 4 + _BLOCK // 2),
    8: (_q8_0, _BLOCK, 2 + _BLOCK),
}
"""By GGML type: how its bytes become numbers, and how many elements and bytes a block has."""
