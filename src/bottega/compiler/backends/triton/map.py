"""Maps: a flat block of elements for each program. Indices that some operand tells apart come from it by division.

Sizes that divide are compile-time constants, so that a division costs next to nothing; a grid of planes was no faster.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter, KernelWriter
from bottega.compiler.backends.triton.reading import barriers, reader, store
from bottega.compiler.backends.triton.shape_index import Lookup, is_flat, is_single, lookup, wanted_by, whole_of
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.backends.triton.spelling import NARROW
from bottega.compiler.choices import BY_RULE
from bottega.compiler.expression import Expression, views
from bottega.compiler.kernel import Map
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View

MANY_HALVES = 1 << 22
"""So that a device still has eight programs for each multiprocessor."""


def write_map(file: FileWriter, kernel: Map) -> None:
    writer = file.kernel_writer(kernel.origin)
    bodies = bodies_of(kernel)
    operands = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
    writer.reserve([view.buffer for view in operands])
    lookups = _lookups(file, kernel)
    loops = merge(kernel.shape, [view for view in operands if view not in lookups], barriers(bodies))
    _flat(writer, kernel, loops, operands, lookups)


def _elements(writer: KernelWriter, kernel: Map) -> int:
    """Of one program. Of many halves twice as many: two loads of 16 bytes for each thread and operand, of a rotary embedding 1.2× (H200)."""
    asked = writer.file.plan.tuning.block
    many = math.prod(kernel.shape) >= MANY_HALVES and all(store.dtype in NARROW for store in kernel.stores)
    return 2 * asked if many and asked == BY_RULE.block else asked


def bodies_of(kernel: Map) -> list[Expression]:
    return [item.body for item in kernel.stores]


def _lookups(file: FileWriter, kernel: Map) -> dict[View, Lookup]:
    found: dict[View, Lookup] = {}
    for view, shapes in wanted_by(bodies_of(kernel), file.plan.shapes).items():
        wholes = [whole_of(shape, kernel.shape) for shape in (*shapes, kernel.shape)]
        hits = [lookup(view, file.plan.buffers[view.buffer], whole) for whole in wholes if whole is not None]
        hit = next((hit for hit in hits if hit is not None), None)
        if hit is not None and not is_flat(view) and not is_single(view):
            found[view] = hit
    return found


def _flat(writer: KernelWriter, kernel: Map, loops: list[Loop], operands: list[View], lookups: dict[View, Lookup]) -> None:
    index, mask = writer.fresh("offsets"), writer.fresh("mask")
    indices, sizes = numbered_names(writer, len(loops), index, "n")
    space = IndexSpace(writer, kernel.shape, operands, [AxisGroup(index, loops, indices, sizes, "n")], lookups=lookups)
    emitter = TritonEmitter(writer, reader(space, lambda along: mask if along else "", lambda node: ""), space.index_of)
    space.touch(operands, bodies_of(kernel))
    elements = _elements(writer, kernel)
    block = writer.constexpr("BLOCK", str(elements))
    writer.indexes(operands)
    writer.line(f"{index} = tl.program_id(0) * {block} + tl.arange(0, {block})")
    writer.line(f"{mask} = {index} < {space.total(0)}")
    space.define(0)
    store(space, emitter, list(kernel.stores), lambda along: mask)
    writer.finish(f"(triton.cdiv({writer.size_text(space.total(0))}, {elements}),)", "num_warps=8" if elements > 2048 else "")
