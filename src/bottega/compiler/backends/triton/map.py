"""Maps: a flat block of elements for each program. Indices that some operand tells apart come from it by division.

Sizes that divide are compile-time constants, so that a division costs next to nothing; a grid of planes was no faster. Where halves are read along
one dimension and written along another, a program has a tile of both, so that each is read and written in whole lines.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter, KernelWriter
from bottega.compiler.backends.triton.reading import barriers, reader, store
from bottega.compiler.backends.triton.shape_index import Lookup, is_flat, is_single, lookup, wanted_by, whole_of
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.backends.triton.spelling import NARROW
from bottega.compiler.backends.triton.width import WIDEST_GRID
from bottega.compiler.choices import BY_RULE
from bottega.compiler.expression import Expression, views
from bottega.compiler.kernel import Map
from bottega.compiler.loops import Loop, merge, strides_along
from bottega.compiler.view import View

MANY_HALVES = 1 << 22
"""So that a device still has eight programs for each multiprocessor."""
MANY_TURNED, TURNED_TILE = 1 << 18, 64
"""From so many halves on a tile of so many rows and columns."""


def write_map(file: FileWriter, kernel: Map) -> None:
    writer = file.kernel_writer(kernel.origin)
    bodies = bodies_of(kernel)
    operands = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
    writer.reserve([view.buffer for view in operands])
    lookups = _lookups(file, kernel)
    loops = merge(kernel.shape, [view for view in operands if view not in lookups], barriers(bodies))
    rows = 0 if lookups else _turned_loops(kernel, loops, operands)
    if rows:
        _tiled(writer, kernel, loops, rows, operands)
    else:
        _flat(writer, kernel, loops, operands, lookups)


def _turned_loops(kernel: Map, loops: list[Loop], operands: list[View]) -> int:
    """How many loops there are up to the one that some operand lies along, if others lie along the last; 0 where one order fits all."""
    if math.prod(kernel.shape) < MANY_TURNED or not _of_halves(kernel):
        return 0
    along = {place for view in operands for place, step in enumerate(strides_along(loops, view)) if step == 1}
    long = sorted(place for place in along if loops[place].size >= TURNED_TILE)
    fits = len(long) == 2 and long[1] == len(loops) - 1
    return long[0] + 1 if fits and math.prod(loop.size for loop in loops[long[0] + 1 :]) < WIDEST_GRID * TURNED_TILE else 0


def _of_halves(kernel: Map) -> bool:
    return all(store.dtype in NARROW for store in kernel.stores)


def _elements(writer: KernelWriter, kernel: Map) -> int:
    """Of one program. Of many halves twice as many: two loads of 16 bytes for each thread and operand, of a rotary embedding 1.2× (H200)."""
    asked = writer.file.plan.tuning.block
    many = math.prod(kernel.shape) >= MANY_HALVES and _of_halves(kernel)
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


def _tiled(writer: KernelWriter, kernel: Map, loops: list[Loop], rows: int, operands: list[View]) -> None:
    row, column, mask = (writer.fresh(name) for name in ("row", "column", "mask"))
    groups = []
    for index, own, upper, mark in ((row, loops[:rows], "rows", "_ROW"), (column, loops[rows:], "columns", "")):
        indices, sizes = numbered_names(writer, len(own), index, upper, mark if len(own) > 1 else "")
        groups.append(AxisGroup(index, own, indices, sizes, upper))
    space = IndexSpace(writer, kernel.shape, operands, groups)
    bounds = [f"{group.index} < {space.total(number)}" for number, group in enumerate(groups)]

    def masks(along: frozenset[int]) -> str:
        return mask if len(along) > 1 else bounds[next(iter(along))] if along else ""

    emitter = TritonEmitter(writer, reader(space, masks, lambda node: ""), space.index_of)
    space.touch(operands, bodies_of(kernel))
    sides = [writer.constexpr(name, str(TURNED_TILE)) for name in ("ROWS", "COLUMNS")]
    writer.indexes(operands)
    for number, (group, side, lanes) in enumerate(zip(groups, sides, ("[:, None]", "[None, :]"))):
        writer.line(f"{group.index} = tl.program_id({number}) * {side} + tl.arange(0, {side}){lanes}")
        space.define(number)
    writer.line(f"{mask} = ({bounds[0]}) & ({bounds[1]})")
    store(space, emitter, list(kernel.stores), lambda along: mask)
    grid = ", ".join(f"triton.cdiv({writer.size_text(space.total(number))}, {TURNED_TILE})" for number in (0, 1))
    writer.finish(f"({grid})", "num_warps=8")
