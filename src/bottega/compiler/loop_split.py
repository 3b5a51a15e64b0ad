"""A row program over finer loops: what it reads tells groups and channels apart where its own loop runs over both."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bottega.compiler.bodies import bodies, loads
from bottega.compiler.compose import places_along
from bottega.compiler.expression import Expression, Gather, Index, Load, walk, with_views
from bottega.compiler.kernel import Map, Reduction, RowProgram, StoreOp
from bottega.compiler.view import Shape, View

WITH_PLACES = ("argmax", "argmin")


def split_for(producer: Map, consumer: RowProgram, buffer: str) -> RowProgram | None:
    """The consumer with the loops of the producer in place of one that runs over several of them. None where there is nothing to split, or what it
    computes depends on the place in a loop."""
    looks = {node.view for node in loads(consumer, buffer)}
    nodes = [node for body in bodies(consumer) for node in walk(body)]
    placed = any(isinstance(node, Gather | Index) for node in nodes) or any(
        r.operation in WITH_PLACES for r in consumer.reductions
    )
    if placed or len(looks) != 1 or (walks := places_along(producer.shape, looks.pop())) is None:
        return None
    views = [node.view for body in bodies(producer) for node in walk(body) if isinstance(node, Load)]
    split = consumer
    for axis in reversed(range(len(walks))):
        sizes = tuple(producer.shape[inner] for inner in walks[axis])
        if any(_is_torn([view.strides[inner] for inner in walks[axis]], sizes) for view in views):
            split = _split(split, axis, sizes)
    return None if split is consumer else split


def _is_torn(strides: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether no single stride walks along all of these axes."""
    return any(outer != inner * size for outer, inner, size in zip(strides, strides[1:], sizes[1:]))


def _split(rows: RowProgram, axis: int, sizes: Shape) -> RowProgram:
    def finer(view: View) -> View:
        steps = tuple(view.strides[axis] * math.prod(sizes[place + 1 :]) for place in range(len(sizes)))
        shape = (*view.shape[:axis], *sizes, *view.shape[axis + 1 :])
        return View(view.buffer, shape, (*view.strides[:axis], *steps, *view.strides[axis + 1 :]), view.offset, view.text)

    def body_of(body: Expression) -> Expression:
        found = with_views(body, finer)
        assert found is not None
        return found

    def stored(items: tuple[StoreOp, ...]) -> tuple[StoreOp, ...]:
        return tuple(StoreOp(finer(item.view), body_of(item.body), item.dtype) for item in items)

    in_kept, inside = axis < len(rows.kept), axis - len(rows.kept)
    return dataclasses.replace(
        rows,
        kept=(*rows.kept[:axis], *sizes, *rows.kept[axis + 1 :]) if in_kept else rows.kept,
        reduced=rows.reduced if in_kept else (*rows.reduced[:inside], *sizes, *rows.reduced[inside + 1 :]),
        reductions=tuple(Reduction(each.name, each.operation, body_of(each.body)) for each in rows.reductions),
        row_stores=stored(rows.row_stores) if in_kept else rows.row_stores,
        element_stores=stored(rows.element_stores),
    )
