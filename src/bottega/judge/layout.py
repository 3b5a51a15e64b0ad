"""How nested values travel between processes: a JSON skeleton with the tensors taken out, and where each tensor lies in an arena."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALIGNMENT = 512
"""As the CUDA caching allocator aligns: kernels with vector loads rely on it."""


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
        """The tensor itself, in the bytes of `base`."""
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


def lay_out(tensors: Sequence[torch.Tensor], start: int = 0) -> tuple[list[TensorSpec], int]:
    """Where each tensor goes, one after the other, and where the last one ends. Dense layouts are kept as they are."""
    specs: list[TensorSpec] = []
    offset = aligned(start)
    for tensor in tensors:
        shape = tuple(tensor.shape)
        stride = tuple(tensor.stride()) if is_dense(shape, tensor.stride()) else contiguous_stride(shape)
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
    if depth > 32:
        raise Unsupported("a value nested more than 32 levels deep")
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
        return getattr(torch, content, None) or torch.device(content)
    raise Unsupported(f"a skeleton node {kind!r}")


def same_shape(left: Any, right: Any) -> bool:
    """Whether two skeletons have the same structure; lists and tuples count as the same, values are not looked at."""
    try:
        ((left_kind, left_content),) = left.items()
        ((right_kind, right_content),) = right.items()
    except (AttributeError, ValueError):
        return False
    sequences = ("tuple", "list")
    if left_kind in sequences and right_kind in sequences:
        return len(left_content) == len(right_content) and all(map(same_shape, left_content, right_content))
    if left_kind == "dict" and right_kind == "dict":
        pairs = {str(key): item for key, item in right_content}
        return len(left_content) == len(pairs) and all(
            str(key) in pairs and same_shape(item, pairs[str(key)]) for key, item in left_content
        )
    plain = ("value", "float", "torch")
    return left_kind == right_kind or (left_kind in plain and right_kind in plain)


def plain_values(skeleton: Any) -> list[Any]:
    """The values of a skeleton that are not tensors, in order."""
    ((kind, content),) = skeleton.items()
    if kind in ("tuple", "list"):
        return [value for item in content for value in plain_values(item)]
    if kind == "dict":
        return [value for _, item in sorted(content, key=lambda pair: str(pair[0])) for value in plain_values(item)]
    if kind == "float":
        return [float(content)]
    return [] if kind == "tensor" else [content]


def _plain_key(key: Any) -> bool:
    if isinstance(key, str | int | bool):
        return True
    raise Unsupported(f"a dictionary key of type {type(key).__name__}")
