"""Is an output right? Errors of candidate and reference against the oracle, accumulated piece by piece."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.judge.dtypes import widest
from bottega.judge.fused_comparison import can_fuse, fused_row
from bottega.judge.tensor_transport import is_dense
from bottega.judge.tolerance import Tolerance, tolerance

PIECE = 1 << 22
"""Elements compared at a time: some ten fp64 tensors of this length exist meanwhile."""
MOST_ROWS = 1 << 12
MOST_BY_CHANCE, FEW = 8, 16
"""Elements of an ill-conditioned output that a candidate may get wrong beside twice as many as the reference does; one in so many at most."""
NEAR = 0.1
"""Of an element, the share by which it may be off where the reference is no number: it was reckoned otherwise."""
FAR_BELOW, FAR_BY_CHANCE = 1e-3, 2
"""Of a wrong element's error, what is no error of the reference's there; and of how many elements, beside one of so many, that may be by chance."""


@dataclass
class OutputComparison:
    """What was found about one output tensor. `feed` it aligned pieces, then ask for `problem`."""

    dtype: str
    precision: str
    scale: float
    """Root mean square of the reference's output, here or typically: what an error is small or large against."""
    elements: int = 0
    truth_square: float = 0.0
    got_square_error: float = 0.0
    reference_square_error: float = 0.0
    got_worst: float = 0.0
    """Largest error of one element, in units of its tolerance."""
    reference_worst: float = 0.0
    worst_at: int = -1
    worst_pair: tuple[float, float] = (0.0, 0.0)
    """Expected and got, where it is worst."""
    foreign_nonfinite: int = 0
    """Elements that are NaN or infinite where the truth is not, or the other way round."""
    unequal: int = 0
    """Elements of an integer or boolean output that differ from the truth."""
    reference_unequal: int = 0
    telling: int = 0
    """Elements of such an output that stand out from zeros, or from whatever it begins with: what rounding may get a few of wrong."""
    first_bad: int = -1
    rounding: tuple[float, float] | None = None
    """When the truth is itself a rounded output: the error that it may carry, overall and in its worst element."""
    limit: Tolerance = field(init=False)
    _rows: list[tuple[int, torch.Tensor]] = field(default_factory=list, repr=False)
    """Numbers of pieces that are still on the device, with where each piece begins."""

    def __post_init__(self) -> None:
        limit = tolerance(self.dtype, self.precision)
        if self.rounding is not None:
            overall, worst = self.rounding
            limit = Tolerance(
                max(limit.overall, limit.slack * overall) + overall,
                limit.element * (max(1.0, limit.slack * worst) + worst),
                limit.slack,
            )
        self.limit = limit

    @property
    def exact(self) -> bool:
        """Integers and booleans have no tolerance, only what the reference itself gets wrong by rounding."""
        return not self.dtype.startswith(("float", "bfloat", "complex"))

    def feed_all(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> None:
        """Take in tensors of one shape and any layout, whose elements follow those that were fed before."""
        tensors = (got, reference, truth)
        if not got.dim() or not got.shape[0] or all(each.is_contiguous() for each in tensors):
            self.feed(got.reshape(-1), reference.reshape(-1), truth.reshape(-1), self.elements)
            return
        rows = max(1, PIECE // max(1, got[0].numel()))  # no second copy of the whole
        for one, two, three in zip(got.split(rows), reference.split(rows), truth.split(rows)):
            self.feed(one.reshape(-1), two.reshape(-1), three.reshape(-1), self.elements)

    def feed(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, start: int = 0) -> None:
        """Take in flat, equally long pieces that begin at element `start` of the output."""
        step = got.numel() if can_fuse(got, reference, truth) else PIECE
        for offset in range(0, got.numel(), max(1, step)):  # nothing at all for an empty output
            part = slice(offset, offset + step)
            self._feed(_real(got[part]), _real(reference[part]), _real(truth[part]), start + offset)

    def _feed(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, start: int) -> None:
        """Reckon with one piece. On a GPU nothing is read back yet: whoever shares the device with others waits a time slice for every
        number that it asks for."""
        self.elements += got.numel()
        row = _exact_row(got, reference, truth) if self.exact else self._row(got, reference, truth)
        self._rows.append((start, row))
        if not row.is_cuda or len(self._rows) >= MOST_ROWS:
            self.settle()

    def _row(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        if can_fuse(got, reference, truth):
            got, reference, truth = (each.contiguous() for each in (got, reference, truth))  # a flattened column has a stride
            return _one_row(fused_row(got, reference, truth, self.scale, self.limit.element))
        largest = torch.finfo(got.dtype).max
        got, reference, truth = got.double(), reference.double(), truth.double()
        agree = (got == truth) | (got.isnan() & truth.isnan()) | (got.isfinite() & truth.isfinite())
        # Where fp64 stays finite and the reference does not, the reference is right, and so is whoever comes near to the truth.
        overflow = ~reference.isfinite() & truth.isfinite()
        if _worth(overflow):
            near = (got - truth.clamp(-largest, largest)).abs() <= NEAR * (truth.abs().clamp(max=largest) + self.scale)
            agree &= ~overflow
            agree |= overflow & ((got == reference) | (got.isnan() & reference.isnan()) | near)
        bad = ~agree
        first = bad.to(torch.uint8).argmax().view(1)
        of_bad = [bad.sum(), first, truth.index_select(0, first), got.index_select(0, first)]
        finite = got.isfinite() & truth.isfinite() & reference.isfinite()
        if _worth(~finite):
            got, reference, truth = (torch.where(finite, values, 0.0) for values in (got, reference, truth))
        error, own = (got - truth).abs_(), (reference - truth).abs_()
        squares = [truth.square().sum(), error.square().sum(), own.square().sum()]
        allowed = truth.abs().add_(self.scale).mul_(self.limit.element).add_(1e-30)
        error /= allowed
        worst = error.argmax().view(1)
        of_worst = [worst, error.index_select(0, worst), truth.index_select(0, worst), got.index_select(0, worst)]
        return _one_row([*squares, own.div_(allowed).max(), *of_worst, *of_bad])

    def settle(self) -> None:
        """Read what was reckoned so far."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        for (start, _), numbers in zip(rows, torch.stack([row for _, row in rows]).tolist()):
            if self.exact:
                self._take_exact(start, *numbers)
            else:
                self._take(start, *numbers)

    def _take_exact(
        self, start: int, wrong: float, reference: float, telling: float, at: float, truth: float, got: float
    ) -> None:
        self.unequal += int(wrong)
        self.reference_unequal += int(reference)
        self.telling += int(telling)
        if wrong and self.first_bad < 0:
            self.first_bad = self.worst_at = start + int(at)
            self.worst_pair = (truth, got)

    def _take(self, start: int, *numbers: float) -> None:
        truth_square, square_error, own_square, own_worst, at, worst, truth, got, bad, first, bad_truth, bad_got = numbers
        if bad:
            self.foreign_nonfinite += int(bad)
            if self.first_bad < 0:
                self.first_bad = self.worst_at = start + int(first)
                self.worst_pair = (bad_truth, bad_got)
        self.truth_square += truth_square
        self.got_square_error += square_error
        self.reference_square_error += own_square
        self.reference_worst = max(self.reference_worst, own_worst)
        if worst > self.got_worst:
            self.got_worst = worst
            if not self.foreign_nonfinite:
                self.worst_at = start + int(at)
                self.worst_pair = (truth, got)

    @property
    def size_square(self) -> float:
        """What the errors are relative to: the truth, or its typical size where this one happens to be tiny."""
        self.settle()
        return max(self.truth_square, self.elements * self.scale**2)

    @property
    def got_error(self) -> float:
        return _relative(self.got_square_error, self.size_square)

    @property
    def reference_error(self) -> float:
        return _relative(self.reference_square_error, self.size_square)

    @property
    def problem(self) -> str:
        """Empty when the output is right; else what kind of wrong: `values`, `nonfinite`, or `unequal`."""
        self.settle()
        if self.exact:
            allowed = 2 * self.reference_unequal + self.telling // 100_000  # of a mask with few marks zeros alone would pass
            return "unequal" if self.unequal > allowed else ""
        if self.foreign_nonfinite:
            return "nonfinite"
        overall = max(self.limit.overall, self.limit.slack * self.reference_error)
        element = max(1.0, self.limit.slack * self.reference_worst)
        if self.size_square == 0.0:
            silent = self.got_square_error <= self.limit.slack**2 * self.reference_square_error + 1e-24 * self.elements
            return "" if silent else "values"
        return "values" if self.got_error > overall or self.got_worst > element else ""

    def to_json(self) -> dict[str, Any]:
        self.settle()
        if self.exact:
            return {"elements": self.elements, "unequal": self.unequal, "reference_unequal": self.reference_unequal}
        return {
            "relative": self.got_error,
            "reference_relative": self.reference_error,
            "worst_element": self.got_worst * self.limit.element,
            "reference_worst": self.reference_worst,
            "limit": max(self.limit.overall, self.limit.slack * self.reference_error),
        }


@dataclass
class WrongElements:
    """How many elements candidate and reference get wrong, each by itself: where some are quotients of almost nothing, these are all that a root
    mean square shows, and they come out differently in every order of a sum."""

    limit: float
    """Error of one element, relative to its own size plus that of half of the others."""
    elements: int = 0
    got: int = 0
    reference: int = 0
    own: int = 0
    """Of those that the candidate gets wrong, where the reference makes no error at all: such an element is not ill-conditioned."""

    def feed_all(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> None:
        flattened = [_real(each.reshape(-1)).split(PIECE) for each in (got, reference, truth)]
        for mine, theirs, narrow in zip(*flattened):
            right = narrow.double()
            finite = right[right.isfinite()].abs()
            allowed = right.abs().add_(finite.median() if finite.numel() else 0.0).mul_(self.limit)
            allowed.masked_fill_(~right.isfinite(), 0.0)
            got, reference = _error(mine, right), _error(theirs, right)
            wrong = got > allowed
            self.elements += right.numel()
            self.got += int(wrong.sum())
            self.reference += int((reference > allowed).sum())
            self.own += int((wrong & (reference <= FAR_BELOW * got)).sum())

    @property
    def alike(self) -> bool:
        """Whether the candidate's are hardly more than the reference's, few of all, and where the reference errs too."""
        few = self.got <= min(2 * self.reference + MOST_BY_CHANCE, self.elements // FEW)
        return few and self.own <= FAR_BY_CHANCE + self.got // FEW


def _error(values: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Of each element; infinite where one of the two is no number, or infinite, and the other is not the same."""
    values = values.double()
    same = (values == truth) | (values.isnan() & truth.isnan())
    return (values - truth).abs_().nan_to_num_(torch.inf, torch.inf).masked_fill_(same, 0.0)


def _exact_row(got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    wrong = as_signed(got) != as_signed(truth.to(got.dtype))
    own = as_signed(reference) != as_signed(truth.to(reference.dtype))
    first = wrong.to(torch.uint8).argmax().view(1)
    telling = _standing_out(as_signed(truth))
    pair = [as_signed(each).index_select(0, first) for each in (truth, got)]
    return _one_row([wrong.sum(), own.sum(), telling, first, *pair])


def _one_row(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([number.reshape(1).double() for number in numbers])


def _worth(mask: torch.Tensor) -> bool:
    """Whether a rare case is to be reckoned with: on a GPU always, since asking takes longer."""
    return mask.is_cuda or bool(mask.any())


def root_mean_square(tensor: torch.Tensor) -> float:
    """Of the finite elements. In pieces: torch makes an fp64 copy of what it takes the norm of in fp64."""
    if tensor.numel() and can_fuse(tensor):
        norms = [torch.linalg.vector_norm(piece, dtype=torch.float64) for piece in pieces(tensor)]
        whole = float(torch.linalg.vector_norm(torch.stack(norms)))
        if math.isfinite(whole):
            return whole / math.sqrt(tensor.numel())
    rows = []
    for piece in pieces(tensor):
        values = _real(piece).double()
        finite = values.isfinite()
        rows.append(_one_row([torch.where(finite, values, 0.0).square().sum(), finite.sum()]))
    if not rows:
        return 0.0
    total, count = torch.stack(rows).sum(0).tolist()
    return math.sqrt(total / count) if count else 0.0


def nonfinite_elements(tensor: torch.Tensor, *, counted: bool) -> torch.Tensor:
    """How many elements are not finite. Not `counted`, only whether there are any: a sum takes no memory, and a count does."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return torch.zeros((), dtype=torch.int64, device=tensor.device)
    if not counted:
        return (~tensor.to(widest(tensor.dtype)).sum().isfinite()).long()
    return torch.stack([piece.numel() - piece.to(widest(piece.dtype)).isfinite().sum() for piece in pieces(tensor)]).sum()


def pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """All elements, in whatever order takes no copy."""
    dense = is_dense(tensor.shape, tensor.stride())
    values = tensor.as_strided((tensor.numel(),), (1,)) if dense else tensor.reshape(-1)
    for offset in range(0, values.numel(), PIECE):
        yield values[offset : offset + PIECE]


def pattern(got: torch.Tensor, truth: torch.Tensor) -> str:
    """In words, how a wrong output differs: what a person would notice first. Looks at a bounded part of it."""
    shape = tuple(truth.shape)
    got, truth = _real(got.reshape(-1)[: 1 << 22]).double(), _real(truth.reshape(-1)[: 1 << 22]).double()
    total = got.numel()
    if total == 0:
        return "the output is empty"
    if bool(got.isnan().all()):
        return "every element is NaN or was never written"
    if bool((got == 0).all()):
        return "every element is zero"
    if total > 1 and bool((got == got[0]).all()):
        return f"every element is the same value {float(got[0]):.6g}"
    scale = float(truth[truth.isfinite()].square().mean().sqrt()) if bool(truth.isfinite().any()) else 1.0
    wrong = ~((got - truth).abs() <= 1e-3 * (truth.abs() + scale)) & ~(got == truth)
    share = float(wrong.double().mean())
    where = wrong.nonzero().reshape(-1)
    nans = int((got.isnan() & ~truth.isnan()).sum())
    told = f"{nans} elements are NaN or were never written; " if nans else ""
    if where.numel() == 0:
        return told + "every element is slightly off: lower precision than the task's"
    first, last = int(where[0]), int(where[-1])
    told += f"{share:.2%} of the elements are wrong, first at {index_text(first, shape)}, last at {index_text(last, shape)}"
    zero_share = float((got[wrong] == 0).double().mean())
    if zero_share > 0.9:
        told += "; the wrong ones are zero"
    if total > 8 and where.numel() == total - first and first > 0:
        told += "; everything from there on is wrong (a tail that was not handled)"
    elif total > 8 and last - first + 1 == where.numel() and where.numel() < total:
        told += "; they are one contiguous block"
    if share > 0.5 and total > 8:
        finite = got.isfinite() & truth.isfinite()
        a, b = got[finite], truth[finite]
        ratio = float((a * b).sum() / (b * b).sum().clamp_min(1e-300))
        if abs(ratio) > 1e-6 and float((a - ratio * b).norm()) < 1e-3 * float(a.norm()):
            told += f"; it is the right answer times {ratio:.6g}"
        elif float((a[1:] - b[:-1]).norm()) < 1e-3 * float(b.norm()) or float((a[:-1] - b[1:]).norm()) < 1e-3 * float(b.norm()):
            told += "; it is the right answer shifted by one element"
        elif float(((a - b) - (a - b).mean()).norm()) < 1e-3 * float(b.norm()):
            told += f"; it is the right answer plus {float((a - b).mean()):.6g}"
    if _small_everywhere(got, truth):
        told += "; the differences are small everywhere: lower precision than the task's"
    return told


def _small_everywhere(got: torch.Tensor, truth: torch.Tensor) -> bool:
    """Whether the error is little and spread over all elements, as rounding spreads it, not gathered in some."""
    error = (got - truth).abs()
    size, total = float(truth.norm()), float(error.norm())
    if got.numel() < 2 or not 0 < total < 2e-2 * size:
        return False
    return float(error.median()) > 0.2 * total / math.sqrt(got.numel())


def index_text(flat_index: int, shape: tuple[int, ...]) -> str:
    """A flat index as the index a person would write."""
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat_index % max(size, 1))
        flat_index //= max(size, 1)
    return "[" + ", ".join(str(i) for i in reversed(index)) + "]"


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()).reshape(-1) if tensor.is_complex() else tensor


def as_signed(tensor: torch.Tensor) -> torch.Tensor:
    """Unsigned integers as signed ones of the same bits: torch compares few of them on a device."""
    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(tensor.dtype)
    return tensor.view(signed) if signed is not None else tensor


def _standing_out(values: torch.Tensor) -> torch.Tensor:
    """Of integers or booleans, how many are not the background."""
    nonzero, others = values.count_nonzero(), (values != values[0]).sum()
    zeros = values.numel() - nonzero if values.dtype == torch.bool else nonzero
    return torch.minimum(torch.minimum(nonzero, others), zeros)


def _relative(square_error: float, square_truth: float) -> float:
    if square_truth == 0.0:
        return 0.0 if square_error == 0.0 else math.inf
    return math.sqrt(square_error / square_truth)
