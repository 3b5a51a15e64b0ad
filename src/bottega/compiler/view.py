"""A tensor in memory, and a strided look at it. Every operand of a kernel is a view of a buffer that exists when it is launched."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Shape = tuple[int, ...]
BufferKind = Literal["input", "parameter", "constant", "result"]


def contiguous_strides(shape: Shape) -> Shape:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Buffer:
    """A tensor that lies in memory, contiguous unless it is an input or a parameter of other layout."""

    name: str
    """The variable that holds it in `forward`: `x`, `self.conv.weight`, `hidden`."""
    shape: Shape
    dtype: str
    """As torch prints it, without `torch.`: float32, bfloat16, int64, bool."""
    kind: BufferKind = "result"
    axes: tuple[str, ...] = field(default=(), compare=False)
    """Python text for the size of each dimension, in terms of what exists before it: `x.shape[0]`, `self.fc.out_features`."""
    strides: Shape = ()
    """Of an input or a parameter that lies dense in another order: channels-last, a transposed argument."""

    @property
    def steps(self) -> Shape:
        return self.strides or contiguous_strides(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def axis_text(self, axis: int) -> str:
        return self.axes[axis] if self.axes else str(self.shape[axis])

    def whole(self) -> View:
        return View(self.name, self.shape, self.steps, 0, self.name, self.axes)


def hash_once(item: object, *parts: object) -> int:
    """The hash of these parts, kept with what they are parts of: a tree is looked up at every one of its nodes."""
    found: int | None = item.__dict__.get("_hash")
    if found is None:
        item.__dict__["_hash"] = found = hash(parts)
    return found


@dataclass(frozen=True)
class View:
    """A strided look at a buffer. In a kernel its dimensions are the kernel's loops; a stride of 0 repeats along that loop."""

    buffer: str
    shape: Shape
    strides: Shape
    offset: int = 0
    """Elements from the start of the buffer."""
    text: str = field(default="", compare=False)
    """Python that gives this view as a tensor: `x.transpose(1, 2)`. For library calls."""
    axes: tuple[str, ...] = field(default=(), compare=False)
    """Python text for the size of each dimension."""

    def __hash__(self) -> int:
        return hash_once(self, self.buffer, self.shape, self.strides, self.offset)

    @property
    def contiguous(self) -> bool:
        """Dense and in order; where the offset is not 0 it is a dense piece of its buffer."""
        wanted = contiguous_strides(self.shape)
        return all(size == 1 or stride == want for size, stride, want in zip(self.shape, self.strides, wanted))

    def axis_text(self, axis: int) -> str:
        return self.axes[axis] if self.axes else str(self.shape[axis])

    def broadcast(self, shape: Shape) -> View:
        """Seen over a larger space, by torch's rules: missing and single dimensions repeat."""
        missing = len(shape) - len(self.shape)
        strides = [0] * missing
        for size, stride, wanted in zip(self.shape, self.strides, shape[missing:]):
            strides.append(0 if size == 1 and wanted != 1 else stride)
        return View(self.buffer, shape, tuple(strides), self.offset, self.text, ())
