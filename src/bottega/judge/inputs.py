"""Fresh secret inputs for every call: drawn by the task's own `get_inputs`, and varied so that shortcuts show.

A variant changes values, never structure: zeros stay zero, symmetric stays symmetric, probabilities and one-hot
tensors are left alone, integers, booleans, complex and eight-bit numbers too. Each tensor gets memory of its own: that two inputs
share some is not part of a task. Which variants make sense for a task is decided by the reference:
one on which it overflows or loses its precision is not used against a candidate.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.core.arguments import read_arguments
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.tensor_transport import TensorSpec, Unsupported, flatten, is_dense, must_have_plain_memory, unflatten

SPIKED_OF_16384 = 33
PLACE_FACTOR = 0x5851F42D4C957F2D
"""Odd and large, so that places have numbers far apart (`digest`)."""
PIECE = 1 << 24
"""Elements handled at a time, so that a variant of a huge tensor needs no second huge tensor."""
DIGESTED_PIECE = 1 << 22
"""The same of a digest: three times as many words of eight bytes are held meanwhile, beside the inputs, and kept by the allocator when the first
outputs come. They made the controller's peak of a task of 1 GB 0.3 GB larger than that of any other step."""


@dataclass
class InputSet:
    """One set of inputs, in the controller's own memory or in the input arena of trusted runners (`Runner.take_in`)."""

    skeleton: Any
    """Of a pair: positional arguments, and keywords."""
    tensors: list[torch.Tensor]
    variant: str
    home: object = None
    specs: list[TensorSpec] = field(default_factory=list)
    """Where they lie in the home's inputs."""

    def call(self, module: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        """What `module` makes of these inputs, with `tensors` in the places of their own."""
        positional, keywords = unflatten(self.skeleton, tensors)
        return module(*positional, **keywords)


def anything(*positional: Any, **keywords: Any) -> None:
    """A signature that takes every call."""


class InputSource:
    def __init__(self, get_inputs: Callable[[], Any], device: str, forward: Callable[..., Any] = anything):
        self.get_inputs = get_inputs
        self.device = device
        self.forward = forward
        """What the inputs are for: its signature says which of them go by name."""
        self.on_device = device != "cpu"
        """Whether the task's factory calls may be sent to the device directly; cleared when that fails once."""
        self.kinds: list[str] | None = None
        self._signs_kept: set[str] = set()
        """Variants that leave signs as they were drawn: a task that takes logarithms has no answer to others."""

    def keep_signs(self, variant: str) -> bool:
        """Have a variant change sizes only from now on. False where it did already."""
        known = variant in self._signs_kept
        self._signs_kept.add(variant)
        return not known

    def draw(self, variant: str = "plain", take_in: Callable[[InputSet], None] | None = None) -> InputSet:
        """Fresh inputs. `take_in` moves them to another memory before the variant is applied, so that nothing large exists twice."""
        torch.manual_seed(secrets.randbits(62))
        try:
            skeleton, tensors = flatten(tuple(read_arguments(self._call(), self.forward)))
            unflatten(skeleton, tensors)
            for place in range(len(tensors)):  # no name outlives this that would keep a tensor
                must_have_plain_memory(tensors[place])
        except Unsupported as reason:
            raise InvalidTask(f"get_inputs() returns {reason}") from None
        drawn = InputSet(skeleton, [_dense(tensors[place].detach().to(self.device)) for place in range(len(tensors))], variant)
        del tensors
        if take_in is not None:
            take_in(drawn)
        if variant != "plain":
            if self.kinds is None:
                self.kinds = [structure(tensor) for tensor in drawn.tensors]
            for place, kind in enumerate(self.kinds):
                if kind != "fixed":
                    if drawn.home is None:  # the task may keep what it hands out
                        drawn.tensors[place] = drawn.tensors[place].clone()
                    apply_variant(drawn.tensors[place], kind, variant, signed=variant not in self._signs_kept)
        return drawn

    def _call(self) -> Any:
        with torch.no_grad(), unseeded():
            if self.on_device:
                try:
                    with torch.device(self.device):
                        return self.get_inputs()
                except torch.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    with torch.device(self.device):
                        return self.get_inputs()
                except Exception:
                    self.on_device = False
            with nullcontext():
                return self.get_inputs()


@contextmanager
def unseeded() -> Iterator[None]:
    """A task that seeds the generators itself would draw the same inputs every time: here it cannot."""
    import random

    import numpy

    places: list[tuple[Any, str]] = [(random, "seed"), (numpy.random, "seed")]
    places += [
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
    ]
    kept = [(module, name, getattr(module, name)) for module, name in places]
    try:
        for module, name in places:
            setattr(module, name, lambda *arguments, **options: None)
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)


def structure(tensor: torch.Tensor) -> str:
    """`free`, `sparse` (zeros mean something), `symmetric`, or `fixed` (its values are not ours to change)."""
    if not tensor.is_floating_point() or tensor.dtype.itemsize == 1 or tensor.numel() < 2:
        return "fixed"
    head = flat(tensor)[: 1 << 20].float()
    if not bool(torch.isfinite(head).all()) or len(torch.unique(head[:4096])) < min(64, head.numel() // 2 + 1):
        return "fixed"
    if _looks_normalised(tensor) or _looks_sorted(tensor):
        return "fixed"
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] and tensor.shape[-1] > 1
    if square and torch.equal(tensor, tensor.transpose(-1, -2)):
        return "symmetric"
    return "sparse" if float((head == 0).float().mean()) > 0.05 else "free"


def apply_variant(tensor: torch.Tensor, kind: str, variant: str, *, signed: bool = True) -> None:
    """Change the values of `tensor` into a variant, in place and in pieces. Unless `signed`, no value gets another sign."""
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    if kind == "symmetric":
        _vary_symmetric(tensor, "mixed" if variant == "offset" else variant, wide, signed)
        return
    values = flat(tensor)
    spread = float(values[: 1 << 20].to(wide).std()) or 1.0
    for piece in values.split(PIECE):
        if variant == "offset":
            varied = piece.to(wide) * 3 if kind == "sparse" else piece.to(wide) + 4 * spread
        else:
            varied = piece.to(wide) * _factor(torch.empty_like(piece, dtype=wide), variant, signed)
        piece.copy_(_fitting(varied, piece.dtype))


def _vary_symmetric(tensor: torch.Tensor, variant: str, wide: torch.dtype, signed: bool) -> None:
    """Some rows from the diagonal on, and with the same factors the columns that mirror them."""
    size = tensor.shape[-1]
    step = max(1, PIECE // (tensor.numel() // size))
    for start in range(0, size, step):
        rows = tensor[..., start : start + step, start:]
        height = rows.shape[-2]
        factor = _factor(torch.empty(rows.shape, dtype=wide, device=tensor.device), variant, signed)
        corner = factor[..., :height]
        corner.copy_(torch.triu(corner) + torch.triu(corner, 1).transpose(-1, -2))
        columns = tensor[..., start + height :, start : start + height]
        rows.copy_(_fitting(rows.to(wide) * factor, tensor.dtype))
        columns.copy_(_fitting(columns.to(wide) * factor[..., height:].transpose(-1, -2), tensor.dtype))


def _factor(like: torch.Tensor, variant: str, signed: bool) -> torch.Tensor:
    """Random factors of the shape and type of `like`. One draw of fifteen bits an element serves for sign and size."""
    bits = torch.randint(0, 1 << 15, like.shape, dtype=torch.int16, device=like.device)
    signs = (bits & 1).to(like.dtype).mul_(2).sub_(1) if signed else torch.ones_like(like)
    if variant == "mixed":
        return signs
    size = bits >> 1  # 0 … 16383
    if variant == "heavy":
        return signs * size.to(like.dtype).div_(1 << 14).clamp_(min=4e-4).rsqrt_()
    return torch.where(size < SPIKED_OF_16384, 16 * signs, signs)


def _fitting(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    limit = torch.finfo(dtype).max
    return values.clamp_(-limit, limit)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of a dense tensor in memory order, without copying."""
    return tensor.as_strided((tensor.numel(),), (1,))


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return flat(tensor).view(torch.uint8)


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, so that NaN equals itself. Both are dense and laid out alike."""
    if left.numel() == 0:
        return True
    width = next(
        word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if flat_bytes(left).numel() % word.itemsize == 0
    )
    a, b = flat_bytes(left).view(width), flat_bytes(right).view(width)
    differ = [(x != y).any() for x, y in zip(a.split(PIECE), b.split(PIECE))]
    return not bool(torch.stack(differ).any())


def digest(tensor: torch.Tensor) -> tuple[tuple[int, ...], int]:
    """Shape, and the sum of the words of a dense tensor, each times a number that its place gives: alike for the same contents, and hardly ever
    for others, in another order included."""
    words = flat_bytes(tensor)
    width = next(word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if words.numel() % word.itemsize == 0)
    sums = []
    for number, piece in enumerate(words.view(width).split(DIGESTED_PIECE)):
        first = number * DIGESTED_PIECE
        places = torch.arange(first, first + piece.numel(), device=tensor.device)
        sums.append((piece.long() * (places * PLACE_FACTOR + 1)).sum())  # wraps, which does no harm
    return tuple(tensor.shape), int(torch.stack(sums).sum())  # read once: each number waits for a time slice of a shared GPU


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor of our own with the same values: views, expansions and conjugations are resolved, dense layouts kept."""
    if type(tensor) is not torch.Tensor:
        tensor = tensor.as_subclass(torch.Tensor)
    tensor = tensor.resolve_conj().resolve_neg()
    if is_dense(tensor.shape, tensor.stride()):
        return tensor.clone() if tensor._base is not None or tensor.untyped_storage().nbytes() > tensor.nbytes else tensor
    return tensor.contiguous()


def _looks_normalised(tensor: torch.Tensor) -> bool:
    """Rows that sum to one, non-negative: probabilities."""
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    rows = _rows(tensor)
    return bool((rows >= 0).all()) and bool(((rows.sum(-1) - 1).abs() < 1e-2).all())


def _looks_sorted(tensor: torch.Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 16:
        return False
    steps = _rows(tensor).diff(dim=-1)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _rows(tensor: torch.Tensor, most: int = 256) -> torch.Tensor:
    """The first few rows, taken out before they are put together: nothing of a large tensor in another layout is copied."""
    for dim in reversed(range(tensor.dim() - 1)):
        tensor = tensor.narrow(dim, 0, min(most, tensor.shape[dim]))
        most = max(1, most // tensor.shape[dim])
    return tensor.reshape(-1, tensor.shape[-1]).float()
