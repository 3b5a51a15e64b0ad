"""Two kernels made one. Each function takes a producer, a consumer and the buffer between them, and gives the fused kernel or None.

Nothing here asks whether fusing pays; that is for the planner and its techniques. What comes out computes the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from bottega.compiler.bodies import loads, renamed_origin, rewritten, stores
from bottega.compiler.compose import compose, reshaped, whole_order
from bottega.compiler.expression import Expression, Gather, Index, Load, Name, reads, replace, walk, with_views
from bottega.compiler.kernel import (
    FunctionCall,
    Kernel,
    Map,
    Reduction,
    RowProgram,
    StoreOp,
)
from bottega.compiler.view import Shape, View, contiguous_strides


def inline(producer: Map, consumer: Kernel, buffer: str) -> Kernel | None:
    """The consumer computes the producer's elements itself, where it would have loaded them."""
    source = next(store for store in producer.stores if store.view.buffer == buffer)
    if len(producer.stores) != 1 or not source.view.contiguous or source.view.offset:
        return None

    def computed(view: View) -> Expression | None:
        return _seen(source.body, producer.shape, view)

    def rewrite(body: Expression) -> Expression | None:
        swap: dict[Expression, Expression] = {}
        for node in reads(body):
            if node.view.buffer == buffer:
                made = computed(node.view) if isinstance(node, Load) else _gathered(source.body, producer.shape, node)
                if made is None:
                    return None
                swap[node] = made
        return replace(body, swap)

    fused = rewritten(consumer, rewrite)
    return None if fused is None else dataclasses.replace(fused, origin=renamed_origin(producer, consumer))


def _gathered(body: Expression, shape: Shape, node: Gather) -> Expression | None:
    """A body over `shape`, at a place that is computed along one of its dimensions."""
    if any(isinstance(inner, Gather | Index) for inner in walk(body)):
        return None
    long = View("", (*node.view.shape, node.size), (*node.view.strides, node.axis_stride), node.view.offset)
    swap: dict[Expression, Expression] = {}
    for inner in walk(body):
        if isinstance(inner, Load):
            seen = compose(inner.view, shape, long)
            if seen is None:
                return None
            view = View(inner.view.buffer, node.view.shape, seen.strides[:-1], seen.offset, inner.view.text)
            step = seen.strides[-1]
            swap[inner] = Gather(view, step, node.size, node.index, inner.dtype) if step else Load(view, inner.dtype)
    return replace(body, swap)


def carry(producer: Map, consumer: RowProgram | Map, buffer: str) -> RowProgram | Map | None:
    """The consumer computes the producer's elements and stores them too, since others read them: a residual that is added and normalised."""
    found = {node.view for node in loads(consumer, buffer)}
    if len(found) != 1 or (fused := inline(producer, consumer, buffer)) is None:
        return None
    view = found.pop()
    space = consumer.shape if isinstance(consumer, Map) else (*consumer.kept, *consumer.reduced)
    whole = math.prod(view.shape) == math.prod(producer.shape) and view.shape == space
    if not whole or any(stride == 0 and size > 1 for size, stride in zip(view.shape, view.strides)) or view.offset:
        return None
    body = _seen(producer.stores[0].body, producer.shape, view)
    if body is None or not isinstance(fused, RowProgram | Map):
        return None
    stored = StoreOp(View(buffer, view.shape, view.strides, 0, buffer), body, producer.stores[0].dtype)
    if isinstance(fused, Map):
        return dataclasses.replace(fused, stores=(stored, *fused.stores))
    return dataclasses.replace(fused, element_stores=(stored, *fused.element_stores))


def _seen(body: Expression, shape: Shape, outer: View) -> Expression | None:
    """A body over `shape`, seen through a view of its contiguous result."""
    same = outer.shape == shape and outer.contiguous and outer.offset == 0
    if not same and any(isinstance(node, Index) for node in walk(body)):
        return None

    def through(view: View) -> View | None:
        seen = compose(view, shape, outer)
        return None if seen is None else dataclasses.replace(seen, text=view.text)

    return with_views(body, through)


def absorb(producer: Kernel, consumer: Map, buffer: str) -> Kernel | None:
    """The producer goes on to compute what the consumer makes of its elements, before anything is stored."""
    if isinstance(producer, FunctionCall):
        return None
    source = next(store for store in stores(producer) if store.view.buffer == buffer)
    found = loads(consumer, buffer)
    if not all(isinstance(node, Load) for node in found) or len({node.view for node in found}) != 1:
        return None
    tail = _over(consumer, found[0].view, source.view)
    if tail is None:
        return None
    made = []
    for store in tail:
        body = _from_producer(store.body, producer, {buffer: source.body})
        if body is None:
            return None
        made.append(StoreOp(store.view, body, store.dtype))
    origin = renamed_origin(producer, consumer)
    if isinstance(producer, RowProgram):
        if source in producer.row_stores:
            return dataclasses.replace(producer, row_stores=(*producer.row_stores, *made), origin=origin)
        return dataclasses.replace(producer, element_stores=(*producer.element_stores, *made), origin=origin)
    return dataclasses.replace(producer, stores=(*producer.stores, *made), origin=origin)


def _over(consumer: Map, outer: View, inner: View) -> list[StoreOp] | None:
    """The consumer's stores over the loops of `inner`, where both look at the same whole buffer: C -> memory <- S."""
    shape = tuple(size for size in inner.shape)
    if math.prod(outer.shape) != math.prod(shape) or outer.offset or inner.offset:
        return None
    if outer.contiguous:
        memory: Shape = outer.shape
        order: tuple[int, ...] = tuple(range(len(memory)))
    else:
        turned = sorted(range(len(outer.shape)), key=lambda axis: -outer.strides[axis])
        memory = tuple(outer.shape[axis] for axis in turned)
        found = whole_order(outer, memory)
        if found is None:
            return None
        order = found

    def at(view: View) -> View | None:
        # From the consumer's loops to the order of memory, then to the producer's loops.
        strides = [0] * len(memory)
        for axis, place in enumerate(order):
            strides[place] = view.strides[axis]
        seen: View | None = View(view.buffer, memory, tuple(strides), view.offset, view.text)
        lying = sorted(range(len(shape)), key=lambda axis: (-inner.strides[axis], axis))
        flat = tuple(shape[axis] for axis in lying)
        if not _lies(inner, lying):
            return None
        assert seen is not None
        seen = reshaped(seen, flat)
        if seen is None:
            return None
        back = [0] * len(shape)
        for place, axis in enumerate(lying):
            back[axis] = seen.strides[place]
        return View(view.buffer, shape, tuple(back), view.offset, view.text)

    made: list[StoreOp] = []
    for store in consumer.stores:
        if any(isinstance(node, Index) for node in walk(store.body)):
            return None
        body, target = with_views(store.body, at), at(store.view)
        if body is None or target is None:
            return None
        made.append(StoreOp(target, body, store.dtype))
    return made


def _lies(view: View, order: list[int]) -> bool:
    """Whether a view, with its dimensions in this order, is dense."""
    shape = tuple(view.shape[axis] for axis in order)
    return all(size == 1 or view.strides[axis] == step for axis, size, step in zip(order, shape, contiguous_strides(shape)))


def spread(producer: RowProgram, consumer: Map, buffer: str) -> RowProgram | None:
    """A map over whole rows that uses a number of each row joins the row's program."""
    source = next((store for store in producer.row_stores if store.view.buffer == buffer), None)
    found = loads(consumer, buffer)
    if source is None or not all(isinstance(node, Load) for node in found) or len({node.view for node in found}) != 1:
        return None
    order = _row_order(found[0].view, producer)
    if order is None:
        return None
    swap_row = _extended(source.body, producer)
    made: list[StoreOp] = []
    for store in consumer.stores:
        body = _from_producer(turned(store.body, order), producer, {buffer: swap_row})
        if body is None:
            return None
        made.append(StoreOp(turned_view(store.view, order), body, store.dtype))
    return dataclasses.replace(
        producer, element_stores=(*producer.element_stores, *made), origin=renamed_origin(producer, consumer)
    )


def _row_order(view: View, producer: RowProgram) -> tuple[int, ...] | None:
    """The axes of a space in the order kept, reduced, read off how it looks at a number of each row."""
    kept = sorted((axis for axis in range(len(view.shape)) if view.strides[axis] != 0), key=lambda axis: -view.strides[axis])
    reduced = [axis for axis in range(len(view.shape)) if view.strides[axis] == 0]
    if tuple(view.shape[a] for a in kept) != producer.kept or tuple(view.shape[a] for a in reduced) != producer.reduced:
        return None
    if tuple(view.strides[a] for a in kept) != contiguous_strides(producer.kept) or view.offset:
        return None
    return (*kept, *reduced)


def _extended(body: Expression, rows: RowProgram) -> Expression:
    """A body over kept loops, over kept and reduced ones."""

    def wide(view: View) -> View:
        shape, strides = (*view.shape, *rows.reduced), (*view.strides, *[0] * len(rows.reduced))
        return View(view.buffer, shape, strides, view.offset, view.text)

    found = with_views(body, wide)
    assert found is not None
    return found


def turned_view(view: View, order: tuple[int, ...]) -> View:
    shape, strides = tuple(view.shape[a] for a in order), tuple(view.strides[a] for a in order)
    return View(view.buffer, shape, strides, view.offset, view.text)


def turned(body: Expression, order: tuple[int, ...]) -> Expression:
    """A body over loops in another order."""
    indices: dict[Expression, Expression] = {
        node: Index(order.index(node.axis)) for node in walk(body) if isinstance(node, Index)
    }
    found = with_views(body, lambda view: turned_view(view, order), indices)
    assert found is not None
    return found


def chain(producer: RowProgram, consumer: RowProgram, buffer: str) -> RowProgram | None:
    """Two programs over the same rows run one after the other on each row."""
    if producer.kept != consumer.kept or producer.reduced != consumer.reduced:
        return None
    taken = {reduction.name for reduction in producer.reductions}
    consumer = _renamed(consumer, taken)
    fused = rewritten(consumer, lambda body: _from_producer(body, producer, {}))
    if not isinstance(fused, RowProgram):
        return None
    return RowProgram(
        producer.kept,
        producer.reduced,
        (*producer.reductions, *fused.reductions),
        (*producer.row_stores, *fused.row_stores),
        (*producer.element_stores, *fused.element_stores),
        renamed_origin(producer, consumer),
    )


def _from_producer(body: Expression, producer: Kernel, known: Mapping[str, Expression]) -> Expression | None:
    """A body in the producer's loops that computes what it would have loaded of the producer's results: a program that loads what it has stored may
    be quicker than its own store. `known`: results that are settled already. None where an element is needed that another program makes."""
    swap: dict[Expression, Expression] = {}
    own = {store.view.buffer for store in stores(producer)}
    for node in reads(body):
        if node.view.buffer not in own:
            continue
        found = known.get(node.view.buffer) if isinstance(node, Load) else None
        for store in stores(producer) if found is None and isinstance(node, Load) else ():
            if store.view.buffer != node.view.buffer:
                continue
            if _same_place(node.view, store.view):
                found = store.body
            elif (
                isinstance(producer, RowProgram)
                and store in producer.row_stores
                and _row_order(node.view, producer) == tuple(range(len(node.view.shape)))
            ):
                found = _extended(store.body, producer)
        if isinstance(node, Gather) and isinstance(producer, RowProgram):
            found = _of_its_row(node, producer)
        if found is None:
            return None
        swap[node] = found
    return replace(body, swap)


def _of_its_row(node: Gather, rows: RowProgram) -> Expression | None:
    """What an element of a row is that is looked up by its place in the row: a label's logarithm, of a softmax that nobody else reads."""
    for store in rows.element_stores:
        *steps, last = store.view.strides
        own = store.view.buffer == node.view.buffer and store.view.contiguous and not store.view.offset and not node.view.offset
        whole = (node.view.shape, node.view.strides, node.axis_stride) == (rows.kept, tuple(steps), last)
        if own and whole and rows.reduced == (node.size,):
            return _gathered(store.body, store.view.shape, node)
    return None


def _same_place(one: View, two: View) -> bool:
    return one.shape == two.shape and one.strides == two.strides and one.offset == two.offset


def _renamed(rows: RowProgram, taken: set[str]) -> RowProgram:
    """Reductions under names that are still free."""
    swap: dict[Expression, Expression] = {}
    used = set(taken)
    for reduction in rows.reductions:
        name, number = reduction.name, 2
        while name in used:
            name, number = f"{reduction.name}_{number}", number + 1
        used.add(name)
        swap[Name(reduction.name)] = Name(name)
    fresh = rewritten(rows, lambda body: replace(body, swap))
    assert isinstance(fresh, RowProgram)
    renamed = tuple(
        Reduction(swap[Name(old.name)].name, new.operation, new.body)  # type: ignore[union-attr]
        for old, new in zip(rows.reductions, fresh.reductions)
    )
    return dataclasses.replace(fresh, reductions=renamed)
