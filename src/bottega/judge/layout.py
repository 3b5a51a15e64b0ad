"""How nested values travel between processes: a JSON skeleton with the tensors taken out, and where each tensor lies in an arena."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALIGNMENT = 512
"""As the CUDA caching allocator aligns: kernels with vector loads rely on it."""


DEEPEST = 32


class Unsupported(Exception):
    """A value that is neither a tensor, a plain value, nor a container of such."""


@dataclass(frozen=True)
class TensorSpec:
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """Bytes from the start of the arena."""

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise Unsupported(f"unknown data type {self.dtype!r}")
        return dtype

    @property
    def extent(self) -> int:
        """Bytes the tensor covers, from its first to its last element."""
        if 0 in self.shape:
            return 0
        elements = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride))
        return elements * self.torch_dtype.itemsize

    def to_json(self) -> list[Any]:
        return [self.dtype, list(self.shape), list(self.stride), self.offset]

    @classmethod
    def from_json(cls, data: Any) -> TensorSpec:
        dtype, shape, stride, offset = data
        return cls(str(dtype), tuple(int(n) for n in shape), tuple(int(n) for n in stride), int(offset))

    def view(self, base: torch.Tensor) -> torch.Tensor:
        """The tensor itself, in the bytes of `base`. A spec that came from elsewhere may say anything."""
        if len(self.shape) != len(self.stride) or any(not 0 <= n < 1 << 48 for n in (*self.shape, *self.stride, self.offset)):
            raise Unsupported("a tensor that cannot exist")
        if self.offset + self.extent > base.numel():
            raise Unsupported("a tensor that lies outside its arena")
        flat = base[self.offset : self.offset + self.extent].view(self.torch_dtype)
        return flat.as_strided(self.shape, self.stride)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements fill their extent without gaps or overlap, in whatever order of dimensions."""
    expected = 1
    for length, size in sorted((s, n) for n, s in zip(shape, stride) if n != 1):
        if length != expected:
            return False
        expected *= size
    return True


def contiguous_stride(shape: Sequence[int]) -> tuple[int, ...]:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def lay_out(
    tensors: Sequence[torch.Tensor], start: int = 0, strides: Sequence[Sequence[int]] = ()
) -> tuple[list[TensorSpec], int]:
    """Where each tensor goes, one after the other, and where the last one ends. A tensor takes the strides that are asked of it, where its
    shape can have them; else dense layouts are kept as they are."""
    specs: list[TensorSpec] = []
    offset = aligned(start)
    for number, tensor in enumerate(tensors):
        shape = tuple(tensor.shape)
        stride = tuple(tensor.stride()) if is_dense(shape, tensor.stride()) else contiguous_stride(shape)
        if number < len(strides) and len(strides[number]) == len(shape) and is_dense(shape, strides[number]):
            stride = tuple(strides[number])
        spec = TensorSpec(dtype_name(tensor.dtype), shape, stride, offset)
        specs.append(spec)
        offset = aligned(offset + spec.extent)
    return specs, offset


def flatten(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """Split a nested value into a JSON skeleton and its tensors, in order."""
    tensors: list[torch.Tensor] = []
    return _strip(value, tensors, 0), tensors


def _strip(node: Any, tensors: list[torch.Tensor], depth: int) -> Any:
    """A function of its own: a recursive closure would be a cycle, and keep the tensors until the collector comes by."""
    if depth > DEEPEST:
        raise Unsupported(f"a value nested more than {DEEPEST} levels deep")
    if isinstance(node, torch.Tensor):
        tensors.append(node)
        return {"tensor": len(tensors) - 1}
    if node is None or isinstance(node, bool | int | str):
        return {"value": node}
    if isinstance(node, float):
        return {"value": node} if math.isfinite(node) else {"float": repr(node)}
    if isinstance(node, torch.Size | tuple):
        return {"tuple": [_strip(item, tensors, depth + 1) for item in node]}
    if isinstance(node, list):
        return {"list": [_strip(item, tensors, depth + 1) for item in node]}
    if isinstance(node, dict):
        return {"dict": [[key, _strip(item, tensors, depth + 1)] for key, item in node.items() if _plain_key(key)]}
    if isinstance(node, torch.dtype | torch.device):
        return {"torch": str(node).removeprefix("torch.")}
    fields = getattr(node, "to_tuple", None)
    if callable(fields):
        return _strip(fields(), tensors, depth + 1)
    raise Unsupported(f"a value of type {type(node).__name__}")


def unflatten(skeleton: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The inverse of `flatten`."""
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(unflatten(item, tensors) for item in content)
    if kind == "list":
        return [unflatten(item, tensors) for item in content]
    if kind == "dict":
        return {key: unflatten(item, tensors) for key, item in content}
    if kind == "torch":
        named = getattr(torch, content, None)
        return named if isinstance(named, torch.dtype) else torch.device(content)
    raise Unsupported(f"a skeleton node {kind!r}")


def same_shape(left: Any, right: Any, depth: int = 0) -> bool:
    """Whether two skeletons have the same structure; lists and tuples count as the same, values are not looked at.

    Either may have come out of a hostile process: what is malformed is the same as nothing.
    """
    try:
        ((left_kind, left_content),) = left.items()
        ((right_kind, right_content),) = right.items()
    except (AttributeError, ValueError, TypeError):
        return False
    if depth > DEEPEST:
        return False
    sequences = ("tuple", "list")
    if left_kind in sequences and right_kind in sequences:
        lists = isinstance(left_content, list) and isinstance(right_content, list) and len(left_content) == len(right_content)
        return lists and all(same_shape(a, b, depth + 1) for a, b in zip(left_content, right_content))
    if left_kind == "dict" and right_kind == "dict":
        mine, theirs = _entries(left_content), _entries(right_content)
        if mine is None or theirs is None or mine.keys() != theirs.keys():
            return False
        return all(same_shape(item, theirs[key], depth + 1) for key, item in mine.items())
    plain = ("value", "float", "torch")
    return left_kind == right_kind or (left_kind in plain and right_kind in plain)


def _entries(content: Any) -> dict[str, Any] | None:
    """The entries of a dictionary's skeleton by their printed keys; None when it is malformed."""
    if not isinstance(content, list) or any(
        not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str | int) for pair in content
    ):
        return None
    return {str(key): item for key, item in content}


def plain_values(skeleton: Any) -> list[Any]:
    """The values of a skeleton that are not tensors, in order."""
    ((kind, content),) = skeleton.items()
    if kind in ("tuple", "list"):
        return [value for item in content for value in plain_values(item)]
    if kind == "dict":
        return [value for _, item in sorted(content, key=lambda pair: str(pair[0])) for value in plain_values(item)]
    if kind == "float":
        try:
            return [float(content)]
        except (TypeError, ValueError):
            return [None]
    return [] if kind == "tensor" else [content]


def _plain_key(key: Any) -> bool:
    if isinstance(key, str | int | bool):
        return True
    raise Unsupported(f"a dictionary key of type {type(key).__name__}")
