"""How nested values travel between processes: a JSON skeleton with the tensors taken out, and where each tensor lies in an arena."""

from __future__ import annotations

import dataclasses
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

ALIGNMENT = 512
"""As the CUDA caching allocator aligns: kernels with vector loads rely on it."""
COMPARABLE = frozenset(
    (
        *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
        *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
    )
)
"""Data types that torch can turn into numbers; it only stores the others (less than a byte, and bits)."""

DEEPEST = 32
SEQUENCES, MAPPINGS, PLAIN = ("tuple", "list", "named"), ("dict", "fields"), ("value", "float", "torch")
"""Kinds of a skeleton's nodes that count as the same: who unpacks a tuple can unpack a list, and who reads `out.loss` of a dataclass is
told by its keys."""


class Unsupported(Exception):
    """A value that cannot cross, as the object of a sentence: what it is, and what to make of it instead."""


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


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of a dense tensor in memory order, without copying."""
    return tensor.as_strided((tensor.numel(),), (1,))


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements fill their extent without gaps or overlap, in whatever order of dimensions."""
    if 0 in shape:
        return True
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
        must_have_plain_memory(tensor)
        shape = tuple(tensor.shape)
        stride = tuple(tensor.stride()) if is_dense(shape, tensor.stride()) else contiguous_stride(shape)
        if number < len(strides) and len(strides[number]) == len(shape) and is_dense(shape, strides[number]):
            stride = tuple(strides[number])
        spec = TensorSpec(dtype_name(tensor.dtype), shape, stride, offset)
        specs.append(spec)
        offset = aligned(offset + spec.extent)
    return specs, offset


def must_have_plain_memory(tensor: torch.Tensor) -> None:
    """Refuse a tensor whose elements do not lie one by one in memory, with strides between them."""
    if tensor.is_nested:
        raise Unsupported("a nested tensor; pad it, or make a list of tensors of it")
    if tensor.layout is not torch.strided:
        kind = "sparse" if "sparse" in str(tensor.layout) else str(tensor.layout).removeprefix("torch.")
        raise Unsupported(f"a {kind} tensor; make it dense with to_dense()")
    if tensor.is_quantized:
        raise Unsupported("a quantized tensor; take its integers with int_repr() or its values with dequantize()")
    if tensor.dtype not in COMPARABLE:
        raise Unsupported(
            f"a tensor of data type {dtype_name(tensor.dtype)}, which torch cannot compare; view it as torch.uint8"
        )
    if tensor.device.type == "meta":
        raise Unsupported("a tensor on the meta device, which has no contents")
    plain = type(tensor) is torch.Tensor or isinstance(tensor, torch.nn.Parameter)
    if not plain and tensor.numel() and not tensor.data_ptr():
        raise Unsupported(f"a {type(tensor).__name__}, which has no memory of its own; make a plain tensor of it")


def flatten(value: Any, numbers: torch.dtype | None = None) -> tuple[Any, list[torch.Tensor]]:
    """Split a nested value into a JSON skeleton and its tensors; entries of a dictionary count in the order of their keys.

    With `numbers`, floats become tensors of that data type among the others: an output `loss.item()` is compared as `loss` is.
    """
    tensors: list[torch.Tensor] = []
    return _strip(value, tensors, numbers, 0), tensors


def _strip(node: Any, tensors: list[torch.Tensor], numbers: torch.dtype | None, depth: int) -> Any:
    """A function of its own: a recursive closure would be a cycle, and keep the tensors until the collector comes by."""
    if depth > DEEPEST:
        raise Unsupported(f"a value nested more than {DEEPEST} levels deep")
    if isinstance(node, torch.Tensor):
        tensors.append(node)
        return {"tensor": len(tensors) - 1}
    if node is None or isinstance(node, bool | int | str):
        return {"value": node}
    if isinstance(node, float | complex) and numbers is not None:
        tensors.append(torch.tensor(node, dtype=numbers.to_complex() if isinstance(node, complex) else numbers, device="cpu"))
        return {"number": len(tensors) - 1}
    if isinstance(node, float):
        return {"value": node} if math.isfinite(node) else {"float": repr(node)}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return {"named": [[name, _strip(item, tensors, numbers, depth + 1)] for name, item in zip(node._fields, node)]}
    if isinstance(node, tuple | list):
        kind = "tuple" if isinstance(node, tuple) else "list"
        return {kind: [_strip(item, tensors, numbers, depth + 1) for item in node]}
    fields = dataclasses.is_dataclass(node) and not isinstance(node, type)
    if isinstance(node, Mapping) or fields:
        # A ModelOutput is both: its keys are those of its fields that are not None.
        entries = dict(node.items() if isinstance(node, Mapping) else _fields_of(node))
        stripped = {key: _strip(entries[key], tensors, numbers, depth + 1) for key in sorted(entries, key=_rank)}
        return {"fields" if fields else "dict": [[key, stripped[key]] for key in entries]}
    if isinstance(node, torch.dtype | torch.device):
        return {"torch": str(node).removeprefix("torch.")}
    raise Unsupported(
        f"a value of type {type(node).__name__}; tensors, numbers, text and None can be handed over, "
        "and lists, tuples and dictionaries of them"
    )


def _fields_of(node: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(node, field.name)) for field in dataclasses.fields(node)]


def unflatten(skeleton: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The inverse of `flatten` without `numbers`, for what can be rebuilt in another process."""
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(unflatten(item, tensors) for item in content)
    if kind == "named":
        return _named_tuple(tuple(name for name, _ in content))(*(unflatten(item, tensors) for _, item in content))
    if kind == "list":
        return [unflatten(item, tensors) for item in content]
    if kind == "dict":
        return {key: unflatten(item, tensors) for key, item in content}
    if kind == "fields":
        raise Unsupported("a dataclass, which another process cannot rebuild; give its fields as arguments, or in a dictionary")
    if kind == "torch":
        named = getattr(torch, content, None)
        return named if isinstance(named, torch.dtype) else torch.device(content)
    raise Unsupported(f"a skeleton node {kind!r}")


@cache
def _named_tuple(names: tuple[str, ...]) -> Any:
    return namedtuple("Named", names)  # type: ignore[misc]


def same_shape(left: Any, right: Any, depth: int = 0) -> bool:
    """Whether two skeletons have the same structure: the same counts and keys, in containers of either kind. Values are not looked at.

    Either may have come out of a hostile process: what is malformed is the same as nothing.
    """
    try:
        ((left_kind, left_content),) = left.items()
        ((right_kind, right_content),) = right.items()
    except (AttributeError, ValueError, TypeError):
        return False
    if depth > DEEPEST:
        return False
    if left_kind in SEQUENCES and right_kind in SEQUENCES:
        ours, theirs = items_of(left_kind, left_content), items_of(right_kind, right_content)
        if ours is None or theirs is None or len(ours) != len(theirs):
            return False
        return all(same_shape(a, b, depth + 1) for a, b in zip(ours, theirs))
    if left_kind in MAPPINGS and right_kind in MAPPINGS:
        mine, others = _entries(left_content), _entries(right_content)
        if mine is None or others is None or mine.keys() != others.keys():
            return False
        return all(same_shape(item, others[key], depth + 1) for key, item in mine.items())
    return left_kind == right_kind or (left_kind in PLAIN and right_kind in PLAIN)


def items_of(kind: str, content: Any) -> list[Any] | None:
    """The items of a sequence's skeleton; None when it is malformed."""
    if not isinstance(content, list) or (kind == "named" and not _pairs(content)):
        return None
    return [item for _, item in content] if kind == "named" else content


def _entries(content: Any) -> dict[str | int, Any] | None:
    """The entries of a dictionary's skeleton by their keys; None when it is malformed."""
    if not isinstance(content, list) or not _pairs(content) or any(not isinstance(key, str | int) for key, _ in content):
        return None
    entries = dict(content)
    return entries if len(entries) == len(content) else None


def _pairs(content: list[Any]) -> bool:
    return all(isinstance(pair, list) and len(pair) == 2 for pair in content)


def plain_values(skeleton: Any) -> list[Any]:
    """The values of a skeleton that are neither tensors nor floats, in the order of `flatten`."""
    ((kind, content),) = skeleton.items()
    if kind in SEQUENCES:
        return [value for item in items_of(kind, content) or () for value in plain_values(item)]
    if kind in MAPPINGS:
        return [value for _, item in sorted(content, key=lambda pair: _rank(pair[0])) for value in plain_values(item)]
    return [content] if kind in PLAIN else []


def _rank(key: Any) -> tuple[bool, int, str]:
    """Keys in one order whatever the order of a dictionary's entries, so that equal dictionaries have equal lists of tensors."""
    if not isinstance(key, str | int):
        raise Unsupported(f"a dictionary with a key of type {type(key).__name__}; make its keys text or integers")
    return (True, 0, key) if isinstance(key, str) else (False, int(key), "")
