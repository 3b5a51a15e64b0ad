"""From statements to a plan: which operators stay calls of torch, and which kernels are fused, as the enabled passes allow.

Without any pass every operator is a kernel of its own, and products and convolutions stay calls of torch wherever something else is left
to write. What a pass cannot be applied to stays as it is.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from bottega.compiler import fusion
from bottega.compiler.activated_products import ACTIVATED_PRODUCTS, activated_products
from bottega.compiler.attention_pattern import attentions
from bottega.compiler.biases import BIASES_APART, biases_apart
from bottega.compiler.bodies import made, read
from bottega.compiler.expression import Expression, Load, Name, replace
from bottega.compiler.fusion_rule import DECIDING, fused_kernels, keeps_busy
from bottega.compiler.in_place import stored_in_place
from bottega.compiler.kernel import Convolution, FunctionCall, GroupedProduct, Kernel, Map, RowProgram, StoreOp
from bottega.compiler.layouts import as_returned, heads_last, in_layout, in_order, with_heads_last
from bottega.compiler.lowering.lower import Lowered
from bottega.compiler.lowering.scope import Statement
from bottega.compiler.merged_linears import MERGED_LINEARS, merged_linears
from bottega.compiler.padded_convolutions import PADDED_CONVOLUTIONS, padded_convolutions
from bottega.compiler.plan import Cuts, KernelPlan, RowChunks
from bottega.compiler.planner_passes import (
    CHUNKED_ROWS,
    IN_PLACE,
    LIBRARY_FUNCTIONS,
    OWN,
    OWN_RECURRENCE,
    SEPARATE_WINDOWS,
    SHORT_ROWS,
    is_ours,
)
from bottega.compiler.row_chunks import row_chunks
from bottega.compiler.short_rows import written_out
from bottega.compiler.sizes import resolved
from bottega.compiler.summed_products import SUMMED_PRODUCTS, summed_products
from bottega.compiler.view import Buffer, View, contiguous_strides

PLANNED = DECIDING | frozenset(
    (
        *("statistics_apart", SHORT_ROWS, PADDED_CONVOLUTIONS.name, MERGED_LINEARS.name, SUMMED_PRODUCTS.name, IN_PLACE),
        *(ACTIVATED_PRODUCTS.name, BIASES_APART.name, LIBRARY_FUNCTIONS.name, CHUNKED_ROWS, OWN_RECURRENCE, SEPARATE_WINDOWS),
    )
)
"""The passes that a plan depends on. The others are the backends'."""


def make_plan(lowered: Lowered, passes: frozenset[str], cuts: Cuts = ()) -> KernelPlan:
    kernels = _chosen(_needed(lowered), passes)
    if LIBRARY_FUNCTIONS.name in passes:
        kernels = _live(kernels, _buffers_of((lowered.returned, *lowered.changed)))
    buffers = dict(lowered.buffers)
    if "statistics_apart" in passes:
        kernels = [piece for kernel in kernels for piece in _apart(kernel, buffers, passes)]
    returned = _buffers_of((lowered.returned, *lowered.changed))
    if "own_attention" in passes:
        kernels = attentions(kernels, buffers, returned)
    kernels = _fused(lowered, kernels, passes, returned)
    if SHORT_ROWS in passes:
        kernels = _fused(lowered, [written_out(kernel) for kernel in kernels], passes, returned)
    if PADDED_CONVOLUTIONS.name in passes:
        kernels = padded_convolutions(kernels, buffers, returned)
    kernels = heads_last(with_heads_last(kernels, buffers, returned), buffers, returned)
    if MERGED_LINEARS.name in passes:
        kernels = merged_linears(kernels, buffers, returned)
    if SUMMED_PRODUCTS.name in passes:
        kernels = summed_products(kernels, buffers, returned | lowered.layouts.keys())
    if ACTIVATED_PRODUCTS.name in passes:
        kernels = activated_products(kernels, buffers, returned | lowered.layouts.keys())
    if BIASES_APART.name in passes:
        kernels = biases_apart(kernels, buffers, returned)
    kernels, result, to_copy = _unnamed(kernels, returned), lowered.returned, lowered.changed
    if IN_PLACE in passes:
        kernels, result, to_copy = stored_in_place(kernels, buffers, result, to_copy, lowered.apart)
        returned = _buffers_of((result, *to_copy))
    handed_over = (result, *(view for _, view in to_copy))
    if LIBRARY_FUNCTIONS.name not in passes:
        kernels, handed_over = as_returned(kernels, buffers, handed_over, lowered.layouts)
    chunks: tuple[RowChunks, ...] = ()
    if CHUNKED_ROWS in passes:
        kernels, chunks = row_chunks(kernels, buffers, returned)
    used = {name for kernel in kernels for name in (*read(kernel), *made(kernel))} | returned
    used |= {name for chunk in chunks for name in chunk.filled}
    kept = {name: buffer for name, buffer in buffers.items() if name in used or buffer.kind == "input"}
    every = {name: buffer for name, buffer in buffers.items() if name in kept or buffer.kind == "result"}
    turned = [buffer for buffer in kept.values() if buffer.kind == "input" and buffer.strides]
    by_shape = LIBRARY_FUNCTIONS.name in passes and not any(buffer.strides for buffer in kept.values())
    shapes = {name: buffer.shape for name, buffer in buffers.items() if by_shape and buffer.kind == "result"}
    kernels = [in_order(kernel, any(buffer.strides for buffer in kept.values())) for kernel in kernels]
    layouts = tuple((buffer.name, in_layout(buffer)) for buffer in turned)
    changed = tuple((name, view.text) for (name, _), view in zip(to_copy, handed_over[1:]))
    written = tuple(name for name, _ in lowered.changed if name not in dict(to_copy))
    plan = resolved(
        KernelPlan(
            every, tuple(kernels), _text(handed_over[0]), lowered.inputs, changed, written, layouts, shapes, cuts, chunks=chunks
        )
    )
    return dataclasses.replace(plan, buffers={name: plan.buffers[name] for name in kept})


def _fused(lowered: Lowered, kernels: list[Kernel], passes: frozenset[str], returned: set[str]) -> list[Kernel]:
    """The kernels fused, once for all plans that begin with the same ones."""
    key = tuple(map(id, kernels)), passes & DECIDING, frozenset(returned)
    if key not in lowered.fused:
        lowered.fused[key] = kernels, fused_kernels(kernels, passes, returned)  # the first are kept, so that ids stay theirs
    return list(lowered.fused[key][1])


def _needed(lowered: Lowered) -> list[Statement]:
    wanted = _buffers_of((lowered.returned, *lowered.changed))
    kept: list[Statement] = []
    for statement in reversed(lowered.statements):
        kernel = statement.kernel or statement.call
        assert kernel is not None
        if wanted & set(made(kernel)):
            kept.append(statement)
            wanted |= read(kernel) | (read(statement.call) if statement.call else set())
            wanted |= {name for piece in statement.pieces for name in read(piece)}
    return list(reversed(kept))


def _chosen(statements: list[Statement], passes: frozenset[str]) -> list[Kernel]:
    """Chooses our kernel, torch's call or the library's function for each statement. A plan without a kernel of ours is no candidate: then the heavy
    operators are ours from the start."""
    heavy = tuple(kind for kind, _ in OWN)
    light = any(statement.kernel and not isinstance(statement.kernel, (*heavy, GroupedProduct)) for statement in statements)
    light |= any(_in_pieces(statement, passes) for statement in statements)
    chosen: list[Kernel] = []
    for statement in statements:
        if _in_pieces(statement, passes):
            chosen += statement.pieces
            continue
        if statement.library_call is not None and LIBRARY_FUNCTIONS.name in passes:
            chosen.append(statement.library_call)
            continue
        if statement.call is not None and statement.call.function == "torch.cat" and LIBRARY_FUNCTIONS.name in passes:
            chosen.append(statement.call)  # a candidate in the call graph's own lines has no such kernel
            continue
        kernel = statement.kernel
        theirs = kernel is None or (light and isinstance(kernel, heavy) and not is_ours(kernel, passes))
        theirs |= isinstance(kernel, GroupedProduct) and not is_ours(kernel, passes)
        if theirs and (kernel is None or statement.call is not None):
            assert statement.call is not None
            chosen.append(statement.call)
            continue
        assert kernel is not None
        chosen.append(kernel)
    return chosen


def _in_pieces(statement: Statement, passes: frozenset[str]) -> bool:
    if isinstance(statement.kernel, Convolution):
        return bool(statement.pieces) and SEPARATE_WINDOWS in passes and not is_ours(statement.kernel, passes)
    return bool(statement.pieces) and OWN_RECURRENCE in passes


def _live(kernels: list[Kernel], wanted: set[str]) -> list[Kernel]:
    """Without kernels whose results are not read: a library function takes its operands as they are, without the copies that our kernel needs."""
    kept: list[Kernel] = []
    for kernel in reversed(kernels):
        if wanted & set(made(kernel)):
            kept.append(kernel)
            wanted = wanted | read(kernel)
    return kept[::-1]


def _apart(kernel: Kernel, buffers: dict[str, Buffer], passes: frozenset[str]) -> list[Kernel]:
    """Splits a row program over few long rows into one that stores a number for each row and reduction, and a map that uses them."""
    if not isinstance(kernel, RowProgram) or not kernel.element_stores or len(kernel.reductions) != 2 or not kernel.kept:
        return [kernel]
    if keeps_busy(kernel, passes):
        return [kernel]
    target = kernel.element_stores[0].view.buffer
    strides = contiguous_strides(kernel.kept)
    owner = buffers[target]
    swap: dict[Expression, Expression] = {}
    stores: list[StoreOp] = []
    for reduction in kernel.reductions:
        name = f"{target}_{reduction.name}"
        buffers[name] = Buffer(name, kernel.kept, "float32" if owner.dtype != "float64" else "float64")
        stores.append(StoreOp(View(name, kernel.kept, strides, 0, name), Name(reduction.name), buffers[name].dtype))
        wide = View(name, (*kernel.kept, *kernel.reduced), (*strides, *[0] * len(kernel.reduced)), 0, name)
        swap[Name(reduction.name)] = Load(wide, buffers[name].dtype)
    statistics = RowProgram(kernel.kept, kernel.reduced, kernel.reductions, (*kernel.row_stores, *stores), (), kernel.origin)
    shape = (*kernel.kept, *kernel.reduced)
    order = sorted(range(len(shape)), key=lambda axis: (-kernel.element_stores[0].view.strides[axis], axis))
    mapped = tuple(
        StoreOp(fusion.turned_view(s.view, tuple(order)), fusion.turned(replace(s.body, swap), tuple(order)), s.dtype)
        for s in kernel.element_stores
    )
    return [statistics, Map(tuple(shape[axis] for axis in order), mapped, kernel.origin)]


def _unnamed(kernels: list[Kernel], returned: set[str]) -> list[Kernel]:
    """Without names for those of a call's outputs that nobody reads, and without calls that only have such."""
    wanted = returned.union(*(read(kernel) for kernel in kernels))
    return [
        dataclasses.replace(kernel, results=tuple(name if name in wanted else "" for name in kernel.results))
        if isinstance(kernel, FunctionCall)
        else kernel
        for kernel in kernels
        if not isinstance(kernel, FunctionCall) or wanted.intersection(kernel.results)
    ]


def _buffers_of(value: Any) -> set[str]:
    if isinstance(value, View):
        return {value.buffer}
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return {name for item in value for name in _buffers_of(item)}
    return set()


def _text(value: Any) -> str:
    if isinstance(value, View):
        return value.text
    if isinstance(value, tuple):
        inside = ", ".join(f"({_text(item)})" if isinstance(item, tuple) else _text(item) for item in value)
        return f"{inside}," if len(value) == 1 else inside
    if isinstance(value, list):
        return "[" + _text((*value, None)).removesuffix(", None") + "]" if value else "[]"
    if isinstance(value, dict):
        items = (
            f"{key!r}: ({_text(item)})" if isinstance(item, tuple) else f"{key!r}: {_text(item)}" for key, item in value.items()
        )
        return "{" + ", ".join(items) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)
