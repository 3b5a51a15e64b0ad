"""Variants of inputs: other values of the same structure, on which what a candidate leaves out shows.

Zeros stay zero, infinities and NaN stay where they are, symmetric stays symmetric, sorted is sorted again, and probabilities are probabilities
again; one-hot tensors are left alone. Integers have a variant of their own (`discrete_variants`). Complex numbers are varied part by part.
A tensor of one value (unit gains, a mask that hides nothing) gets others: what it makes idle could be left out. No two elements become equal
where they were not, but for zeros that share no row and no column: the order of equal elements is nobody's contract.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import torch

from bottega.judge.tensor_transport import flat
from bottega.judge.variants import OF_INTEGERS

PIECE = 1 << 24
"""Elements handled at a time, so that a variant of a huge tensor needs no second huge tensor."""
SPIKED_OF_16384, GIANTS_OF_16384 = 33, 2
FEW_VALUES = (16, 64)
"""Of which a tensor of eight-bit numbers, or of others, has fewer if they are a mask or labels."""
MOST_MASKED = 1 << 26
"""Elements of a tensor with infinities that is varied: where they were is held meanwhile."""
GIANT_SIZE, LARGEST_FACTOR = 128.0, 512.0
"""What giants come to, whatever the inputs' own size: fp32 has no exponential of 89. And how many times as large as they were at most."""
LONG_AXIS, SLICED_AXIS = 32, 8
"""Sizes from which on an axis has an end that could be forgotten, and slices that can be spared."""
FAINT, FAINTEST = (2.0**-9, 2.0**-36), 2.0**-90
"""Of one slice of each axis each: near what is usually added to a variance, and far below. Its cube is no subnormal number, which would take some
processors longer; of the faintest the square is zero, as of a row of padding."""
NEXT_TO_NOTHING = 2.0**-40
"""What is no longer made smaller."""
FAINT_HALF = 2.0**-7, 2.0**-9
"""The same in fp16, which has nothing below 2**-24."""
ZEROS, LEAST_WITH_A_ZERO = 8, 8
"""At most, and the elements that a tensor has where there are any."""
LOOSENED = 0.02
"""By so much of its size, at most, an element of a table is changed in every call: more than what bf16 is allowed to be off by."""
GIANTS_AT_ENDS = 16
"""At the end of an axis of 1,024, however few lines there are; of shorter ones less, since they have fewer elements to be seen beside them."""
CARRIERS, CARRIERS_AT_ENDS, NEAR_THE_END = 256, 16, 16
FLIPPED_OF_8 = 1
LOOKED_AT = 1 << 20
"""Elements of a row that tell whether it is sorted: the differences of all of a huge one would be a second huge tensor."""


@dataclass(frozen=True)
class Strength:
    """How far a variant goes. What the reference has no accurate answer to is tried again with less."""

    signed: bool = True
    """Signs are drawn anew: a task that takes logarithms has no answer to that."""
    extreme: bool = True
    """Zeros, faint slices, giants, and other values for constants."""
    enlarged: bool = True
    """Without, no element becomes larger: a task whose inputs are shares, or sines, has no answer to larger ones, and has one to zeros."""
    faintest: bool = True
    """A slice of each axis is next to nothing: a task that divides by its length has no answer."""
    faint: bool = True
    """Some slices are faint, and some elements zero."""
    ordered: bool = True
    """Sorted tensors are varied too: a task may have no answer to other times, or other steps of a schedule."""


STRONGEST = Strength()
SHRUNK = ("free", "sparse", "masked", "normalised")
"""Kinds of tensors (`structure`) that are varied where nothing may become larger."""


def strengths(variant: str) -> tuple[Strength, ...]:
    """What is tried of a variant, one after the other, until the reference has an accurate answer. Signs matter more than extremes, and what is
    not sorted more than what is."""
    if variant in OF_INTEGERS:
        return STRONGEST, Strength(extreme=False)
    weaker: list[Strength] = []
    if variant == "offset":
        weaker = [Strength(extreme=False)]
    elif variant != "concentrated":
        weaker = [Strength(extreme=False), Strength(signed=False), Strength(signed=False, extreme=False)]
    if variant == "spiked":
        weaker = [Strength(faintest=False), *(replace(each, faintest=False) for each in weaker)]
        weaker.append(Strength(signed=False, enlarged=False, faintest=False))
    return (STRONGEST, *(replace(each, ordered=False) for each in (STRONGEST, *weaker)))


def structure(tensor: torch.Tensor) -> str:
    """`free`, `sparse` (zeros mean something), `masked` (so do infinities or NaN), `symmetric`, `sorted`, `normalised` (probabilities), `constant`
    (one value), or `fixed` (its values are not ours to change)."""
    if tensor.dtype == torch.bool:
        return "constant" if tensor.numel() and bool(tensor.all()) == bool(tensor.any()) else "fixed"
    if tensor.is_complex():
        return "free" if not _mirrors(tensor) and structure(torch.view_as_real(tensor)) == "free" else "fixed"
    if not tensor.is_floating_point() or tensor.dtype is torch.float8_e8m0fnu or not tensor.numel():
        return "fixed"
    head = flat(tensor)[: 1 << 20].float()
    finite = head.isfinite()
    if not bool(finite.all()):
        if tensor.numel() > MOST_MASKED or tensor.dtype.itemsize == 1:
            return "fixed"
        return "fixed" if _has_few_values(head[finite], FEW_VALUES[1]) or looks_sorted(tensor) or _mirrors(tensor) else "masked"
    if bool((head == head[0]).all()):
        return "constant"
    if _has_few_values(head, FEW_VALUES[tensor.dtype.itemsize > 1]):
        return "fixed"
    if looks_normalised(tensor):
        return "normalised" if tensor.dtype.itemsize > 1 and not _mirrors(tensor) else "fixed"
    if looks_sorted(tensor):
        return "sorted" if tensor.dtype.itemsize > 1 else "fixed"
    if _mirrors(tensor):
        return "symmetric" if tensor.dtype.itemsize > 1 else "fixed"
    return "sparse" if float((head == 0).float().mean()) > 0.05 else "free"


def apply_variant(tensor: torch.Tensor, kind: str, variant: str, strength: Strength = STRONGEST) -> None:
    """Change the values of `tensor` into a variant, in place and in pieces."""
    whole = tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    narrow = tensor.dtype.itemsize == 1  # of which torch has no arithmetic, and whose range is too small for extremes
    if narrow:
        strength, variant = replace(strength, extreme=kind == "constant"), "spiked" if variant == "concentrated" else variant
    if kind == "constant":
        if strength.extreme and strength.enlarged:
            _vary_constant(tensor, wide)
        return
    if kind == "symmetric":
        if strength.enlarged:
            _vary_symmetric(tensor, "mixed" if variant in ("offset", "concentrated") else variant, wide, strength.signed)
        return
    if kind == "masked":
        above, below, missing = tensor == torch.inf, tensor == -torch.inf, tensor.isnan()
        apply_variant(tensor.masked_fill_(above | below | missing, 0.0), "free", variant, strength)
        tensor.masked_fill_(above, torch.inf).masked_fill_(below, -torch.inf).masked_fill_(missing, torch.nan)
        return
    if kind == "sorted":
        if strength.ordered and strength.enlarged:
            falling = bool(tensor[..., 0].sum() > tensor[..., -1].sum())
            apply_variant(tensor, "free", variant, replace(strength, extreme=False))  # zeros would be equal
            for rows in _in_pieces(tensor) if tensor.dim() > 1 else (tensor,):
                rows.copy_(rows.sort(-1, descending=falling).values)
        return
    if kind == "normalised":
        if variant == "concentrated":  # which has no weaker form, and a logarithm no answer to zeros
            strength, variant = replace(strength, extreme=False), "spiked"
        apply_variant(tensor, "free", variant, replace(strength, signed=False))
        _normalise(tensor, wide)
        return
    values = flat(tensor)
    spread = float(values[: 1 << 20].to(wide).std()) or 1.0
    if variant == "concentrated":
        _concentrate(tensor, spread)
        return
    giant = min(max(GIANT_SIZE / spread, 16.0), LARGEST_FACTOR) if strength.extreme else 16.0
    for piece in values.split(PIECE) if strength.enlarged or strength.signed else ():
        if variant == "offset":
            varied = piece.to(wide) * 3 if kind == "sparse" else piece.to(wide) + 4 * spread
        else:
            like, factors = torch.empty_like(piece, dtype=wide), variant if strength.enlarged else "mixed"
            varied = piece.to(wide) * _factor(like, factors, strength.signed, giant)
        piece.copy_(_fitting(varied, piece.dtype))
    if variant == "spiked" and strength.extreme:
        if strength.enlarged:
            _vary_ends(tensor, spread, giant)
        if strength.faint:
            _make_faint(tensor, strength.faintest)
            _put_zeros(whole)  # of a complex number both parts


def loosen(tensor: torch.Tensor) -> None:
    """Change every element a little, and none to zero or its sign."""
    for piece in flat(torch.view_as_real(tensor) if tensor.is_complex() else tensor).split(PIECE):
        if piece.dtype.itemsize > 1:
            piece.mul_(torch.rand(piece.shape, device=piece.device).mul_(2 * LOOSENED).add_(1 - LOOSENED))


def _vary_constant(tensor: torch.Tensor, wide: torch.dtype) -> None:
    """Unit gains and zero biases become random, near what they were; of a mask that is the same everywhere some places change."""
    for piece in flat(tensor).split(PIECE):
        if piece.dtype == torch.bool:
            piece.logical_xor_(torch.randint(0, 8, piece.shape, dtype=torch.uint8, device=piece.device) < FLIPPED_OF_8)
        else:
            noise = torch.rand(piece.shape, dtype=wide, device=piece.device).mul_(0.5).sub_(0.25)
            size = piece.to(wide)
            piece.copy_(_fitting(size + noise * torch.where(size == 0, 1.0, size), piece.dtype))


def _normalise(tensor: torch.Tensor, wide: torch.dtype) -> None:
    """Have rows sum to one again."""
    for piece in _in_pieces(tensor) if tensor.dim() > 1 else (tensor,):
        piece.copy_(piece.to(wide) / piece.sum(-1, keepdim=True, dtype=wide))


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


def _factor(like: torch.Tensor, variant: str, signed: bool, giant: float = 16.0) -> torch.Tensor:
    """Random factors of the shape and type of `like`. One draw of fifteen bits an element serves for sign and size."""
    bits = torch.randint(0, 1 << 15, like.shape, dtype=torch.int16, device=like.device)
    signs = (bits & 1).to(like.dtype).mul_(2).sub_(1) if signed else torch.ones_like(like)
    if variant == "mixed":
        return signs
    size = bits >> 1  # 0 … 16383
    if variant == "heavy":
        return signs * size.to(like.dtype).div_(1 << 14).clamp_(min=4e-4).rsqrt_()
    sizes = torch.ones_like(like).masked_fill_(size < SPIKED_OF_16384, 16.0).masked_fill_(size < GIANTS_OF_16384, giant)
    return signs.mul_(sizes)


def _vary_ends(tensor: torch.Tensor, spread: float, giant: float) -> None:
    """At the end of each long axis a quarter of the elements become spikes, and a few larger than any other: a last block that is not handled
    shows in a sum, in a maximum and behind an exponential."""
    for axis, size in enumerate(tensor.shape):
        if size < LONG_AXIS:
            continue
        face = tensor.select(axis, size - 1)
        giants = max(min(0.25, size * GIANTS_OF_16384 / 16384), min(0.75, size / 1024 * GIANTS_AT_ENDS / face.numel()))
        for piece in _in_pieces(face):
            chance = torch.rand(piece.shape, device=piece.device)
            factor = torch.where(chance < 0.25, 16.0, 1.0)
            factor = torch.where(chance < giants, 2 * giant, factor)
            factor = torch.where(piece.abs() > 8 * spread, 1.0, factor)  # a spike already
            piece.copy_(_fitting(piece * factor.to(torch.promote_types(piece.dtype, torch.float32)), piece.dtype))


def _make_faint(tensor: torch.Tensor, faintest: bool) -> None:
    """Of every axis one slice near what is usually added to a variance, one far below, and one next to nothing. Short axes at the front, as of four
    samples of three channels, count as one."""
    factors = FAINT_HALF if tensor.dtype == torch.float16 else (*FAINT, FAINTEST) if faintest else FAINT
    blocks: list[tuple[int, ...]] = [()]
    for size in takewhile(lambda size: size < SLICED_AXIS, tensor.shape[:-1]):
        blocks = [(*block, place) for block in blocks for place in range(size)]
        if len(blocks) >= SLICED_AXIS:
            _make_slices_faint(tensor, blocks, factors)
            break
    for axis, size in enumerate(tensor.shape):
        if size >= SLICED_AXIS:
            _make_slices_faint(tensor.movedim(axis, 0), range(size), factors)


def _make_slices_faint(tensor: torch.Tensor, places: Sequence[int | tuple[int, ...]], factors: Sequence[float]) -> None:
    for place, factor in zip(secrets.SystemRandom().sample(places, len(factors)), factors):
        view = tensor[place]
        view.copy_(torch.where(view.abs() < NEXT_TO_NOTHING, view, view * factor))  # where slices cross there would be zeros


def _put_zeros(tensor: torch.Tensor) -> None:
    """A few zeros, no two of them in one row or column. One where an axis is too short for more, as of three channels: it is like no other."""
    axes = [size for size in tensor.shape if size > 1]
    count = min(ZEROS, max(1, min(size // 4 for size in axes))) if tensor.numel() >= LEAST_WITH_A_ZERO else 0
    drawn = secrets.SystemRandom()  # few of many: a permutation of a billion places would take minutes
    places = [drawn.sample(range(size), count) if size > 1 else [0] * count for size in tensor.shape]
    if count:
        tensor[tuple(torch.tensor(place, device=tensor.device) for place in places)] = 0.0


def _concentrate(tensor: torch.Tensor, spread: float) -> None:
    """A few elements anywhere, and some at the end of each axis, carry as much of any sum as all others together: whoever leaves out a part of a
    very long sum leaves out some of them, and each shows. Some more lie near each end, since the last elements of two inputs may be almost alike
    and a difference of the inputs then loses them."""
    size = tensor.numel() * spread / CARRIERS
    for axis, length in enumerate(tensor.shape):
        near = min(length, NEAR_THE_END)
        _enlarge(tensor.narrow(axis, length - near, near), CARRIERS_AT_ENDS, size)
        _enlarge(tensor.select(axis, length - 1), CARRIERS_AT_ENDS, 4 * size)
    _enlarge(tensor, CARRIERS, size)


def _enlarge(view: torch.Tensor, count: int, size: float) -> None:
    """Give some elements of a view their own sign and about this size; different ones, since differences of two inputs must show too."""
    places = tuple(torch.randint(0, length, (count,), device=view.device) for length in view.shape)
    chosen = view[places]
    sizes = size * (1 + 3 * torch.rand(chosen.shape, device=view.device, dtype=torch.float64))
    view[places] = _fitting(_signs(chosen) * sizes, view.dtype).to(view.dtype)


def _signs(values: torch.Tensor) -> torch.Tensor:
    """In fp64, and 0 for zeros."""
    return values.double().sign()


def _in_pieces(view: torch.Tensor) -> Iterator[torch.Tensor]:
    if view.numel() <= PIECE or not view.dim():
        yield view
        return
    yield from view.split(max(1, PIECE * view.shape[0] // view.numel()))


def _has_few_values(values: torch.Tensor, few: int) -> bool:
    """As a mask or labels have; or there are too few of them to tell."""
    return len(torch.unique(values[:4096])) < min(few, values.numel() // 2 + 1)


def _fitting(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    limit = torch.finfo(dtype).max
    return values.clamp_(-limit, limit)


def _mirrors(tensor: torch.Tensor) -> bool:
    """Symmetric or, of complex numbers, its own conjugate transpose too."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    compared = tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor
    return torch.equal(compared, compared.mT) or (compared.is_complex() and torch.equal(compared, compared.mH))


def looks_normalised(tensor: torch.Tensor) -> bool:
    """Rows that sum to one, non-negative: probabilities."""
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    rows = _rows(tensor)
    return bool(rows.amin() >= 0) and bool(((rows.sum(-1) - 1).abs() < 1e-2).all())


def looks_sorted(tensor: torch.Tensor, least: int = 16) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < least:
        return False
    steps = _rows(tensor)[:, :LOOKED_AT].diff(dim=-1)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _rows(tensor: torch.Tensor, most: int = 256) -> torch.Tensor:
    """The first few rows, taken out before they are put together: nothing of a large tensor in another layout is copied."""
    for dim in reversed(range(tensor.dim() - 1)):
        tensor = tensor.narrow(dim, 0, min(most, tensor.shape[dim]))
        most = max(1, most // tensor.shape[dim])
    return tensor.reshape(-1, tensor.shape[-1]).float()
