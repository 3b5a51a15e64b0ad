"""Maps: a flat block of elements for each program. Indices that some operand tells apart come from it by division.

Sizes that divide are compile-time constants, so that a division costs next to nothing; a grid of planes was no faster.
"""

from __future__ import annotations

from bottega.compiler.backends.triton.emit import Emitter
from bottega.compiler.backends.triton.kernel_text import Page, Sheet
from bottega.compiler.backends.triton.lookup import Lookup, is_flat, is_single, lookup, wanted_by, whole_of
from bottega.compiler.backends.triton.reading import barriers, reader, store
from bottega.compiler.backends.triton.space import Group, Space, numbered_names
from bottega.compiler.expression import Expression, views
from bottega.compiler.kernel import Map
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View

FLAT_BLOCK = 1024


def write_map(page: Page, kernel: Map) -> None:
    sheet = page.sheet(kernel.origin)
    bodies = bodies_of(kernel)
    operands = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
    sheet.reserve([view.buffer for view in operands])
    lookups = _lookups(page, kernel)
    loops = merge(kernel.shape, [view for view in operands if view not in lookups], barriers(bodies))
    _flat(sheet, kernel, loops, operands, lookups)


def bodies_of(kernel: Map) -> list[Expression]:
    return [item.body for item in kernel.stores]


def _lookups(page: Page, kernel: Map) -> dict[View, Lookup]:
    found: dict[View, Lookup] = {}
    for view, shapes in wanted_by(bodies_of(kernel), page.plan.shapes).items():
        wholes = [whole_of(shape, kernel.shape) for shape in (*shapes, kernel.shape)]
        hits = [lookup(view, page.plan.buffers[view.buffer], whole) for whole in wholes if whole is not None]
        hit = next((hit for hit in hits if hit is not None), None)
        if hit is not None and not is_flat(view) and not is_single(view):
            found[view] = hit
    return found


def _flat(sheet: Sheet, kernel: Map, loops: list[Loop], operands: list[View], lookups: dict[View, Lookup]) -> None:
    hand = sheet.hand
    index, mask = sheet.fresh(hand.flat), sheet.fresh(hand.mask)
    indices, sizes = numbered_names(sheet, len(loops), index, hand.size)
    space = Space(sheet, kernel.shape, operands, [Group(index, loops, indices, sizes, hand.size)], lookups=lookups)
    emitter = Emitter(sheet, reader(space, lambda along: mask if along else "", lambda node: ""), space.index_of)
    space.touch(operands, bodies_of(kernel))
    block = sheet.constexpr(hand.block, str(FLAT_BLOCK))
    sheet.indexes(operands)
    sheet.line(f"{index} = tl.program_id(0) * {block} + tl.arange(0, {block})")
    sheet.line(f"{mask} = {index} < {space.total(0)}")
    space.define(0)
    store(space, emitter, list(kernel.stores), lambda along: mask)
    sheet.finish(f"(triton.cdiv({sheet.size_text(space.total(0))}, {FLAT_BLOCK}),)")
