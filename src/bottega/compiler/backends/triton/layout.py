"""How rows lie on the device: in registers, packed, walked or split, and which reductions share a sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bottega.compiler.backends.triton.accumulate import (
    Accumulator,
    Any,
    Moments,
    OnlineSoftmax,
    levels,
    moments_pair,
    only_below_exponentials,
    softmax_pair,
)
from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.neutral import neutral_text
from bottega.compiler.backends.triton.spelling import NARROW, kind_of
from bottega.compiler.expression import Cast, Gather, Load, views, walk
from bottega.compiler.kernel import Reduction, RowProgram
from bottega.compiler.view import View

LONGEST_ROW = 16384
"""Elements of a row that one program keeps in registers."""
TALLEST_TILE = 8192
"""Elements of at least 32 rows side by side in memory, of halves 16, that one program keeps in registers: a loop waits for memory at every step."""
SHORT_ROW = 512
PIECE = 4096
"""Elements below which a piece of a row is not worth a program of its own."""
SPLIT_PROGRAMS = 132
"""Fewer programs than the device has multiprocessors: a row is worth splitting."""


@dataclass
class RowLayout:
    """How a rows kernel lies on the device."""

    tile: bool
    """Several rows for each program."""
    outer: bool
    """Lanes run along rows, since neighbours in memory are rows' neighbours, not a row's."""
    looped: bool
    splits: int = 0


def layout_of(file: FileWriter, kernel: RowProgram) -> RowLayout:
    rows, columns = math.prod(kernel.kept), math.prod(kernel.reduced)
    outer = _lanes_along_rows(kernel)
    loads = {v for r in kernel.reductions for v in views(r.body)} | {v for s in kernel.element_stores for v in views(s.body)}
    full = sum(_is_full(view, len(kernel.kept)) for view in loads)
    if outer:
        least = 16 if of_halves(kernel) else 32
        looped = columns > TALLEST_TILE // least // (2 if full > 2 else 1)
        programs = math.ceil(rows / 64)
    else:
        looped = columns > LONGEST_ROW // (2 if full > 3 else 1)
        programs = rows
    splits = 0
    if file.on("split_rows") and looped and programs < SPLIT_PROGRAMS and len(levels(accumulators(file, kernel))) == 1:
        pieces = columns // (PIECE if not outer else max(PIECE // 32, 1))
        splits = min(_power(528 // programs), _power(pieces), 256)
    if splits > 1:
        return RowLayout(outer, outer, True, splits)
    packed = file.on("short_rows_packed") and columns <= SHORT_ROW and rows > 1
    return RowLayout(outer or packed, outer, looped)


def of_halves(kernel: RowProgram) -> bool:
    """Whether all that it stores is narrower than fp32."""
    return all(store.dtype in NARROW for store in (*kernel.row_stores, *kernel.element_stores))


def _is_full(view: View, kept: int) -> bool:
    """Whether every row reads elements of its own, as a gain does not."""
    return any(view.strides[kept:]) and any(view.strides[:kept])


def _power(value: int) -> int:
    return 1 << max(value.bit_length() - 1, 0) if value > 0 else 0


def _lanes_along_rows(kernel: RowProgram) -> bool:
    """Whether neighbours in memory belong to neighbouring rows, for most of what is read."""
    bodies = [item.body for item in kernel.reductions] + [item.body for item in kernel.element_stores]
    operands = [view for body in bodies for view in views(body)]
    shape = kernel.kept + kernel.reduced
    votes = 0
    for view in dict.fromkeys(operands):
        kept = [s for s, size in zip(view.strides[: len(kernel.kept)], shape) if size > 1]
        reduced = [s for s, size in zip(view.strides[len(kernel.kept) :], kernel.reduced) if size > 1]
        if reduced and any(reduced) and any(kept):
            votes += -1 if 1 in reduced else 1 if 1 in kept else 0
    return votes > 0


def accumulators(file: FileWriter, kernel: RowProgram) -> list[Any]:
    """Reductions in order, with those pairs joined that a technique takes in one sweep."""
    found: list[Any] = []
    done: set[str] = set()
    count = math.prod(kernel.reduced)
    for position, reduction in enumerate(kernel.reductions):
        if reduction.name in done:
            continue
        partner: Any | None = None
        for other in kernel.reductions[position + 1 :]:
            function = softmax_pair(reduction, other)
            if file.on("online_softmax") and function:
                partner = OnlineSoftmax(reduction, other, function, not only_below_exponentials(reduction, kernel))
            elif file.on("single_sweep_moments") and moments_pair(reduction, other, count):
                partner = Moments(reduction, other)
            if partner:
                done.add(other.name)
                break
        if partner is None:
            kind, dtype = kind_and_type(reduction)
            careful = is_careful(reduction, kind, kernel)
            partner = Accumulator(reduction, careful, kind, neutral_text(reduction, kind, dtype))
        found.append(partner)
    return found


def is_careful(reduction: Reduction, kind: str, kernel: RowProgram) -> bool:
    """Whether a NaN must win."""
    extreme = reduction.operation in ("max", "min", "argmax", "argmin")
    return kind == "float" and extreme and not only_below_exponentials(reduction, kernel)


def kind_and_type(reduction: Reduction) -> tuple[str, str]:
    loads = [node for node in walk(reduction.body) if isinstance(node, Load | Gather | Cast)]
    probe = TritonEmitter.__new__(TritonEmitter)
    probe.kinds = {}
    kind = probe.kind(reduction.body)
    if reduction.operation in ("any", "all"):
        return "int", "int32"
    if kind == "bool":
        kind = "int"
    usual = "float32" if kind == "float" else "int32"  # without integers in memory: places along a row
    return kind, next((node.dtype for node in loads if kind_of(node.dtype) == kind), usual)
