"""Products of groups of rows with a matrix each, as a mixture of experts has them: as a kernel, and with the gate behind them."""

from __future__ import annotations

from dataclasses import replace

from bottega.compiler.bodies import loads, renamed_origin
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Expression, Index, Load, Name, walk
from bottega.compiler.expression import replace as swapped
from bottega.compiler.kernel import GROUPED_PARTS, GroupedProduct, Map, StoreOp

OWN_GROUPED = CompilerPass(
    "own_grouped",
    "Products of groups of rows with a matrix each.",
    "Write the grouped products myself, with the gather before them and the gate behind them in the same kernel ({origin}).",
)


def gate(producer: GroupedProduct, consumer: Map, buffer: str) -> GroupedProduct | None:
    """A product whose result's halves are joined element by element, as a gate and what it gates: both halves of an element in one tile."""
    half = producer.columns // 2
    looks = loads(consumer, buffer)
    found = {node.view.offset: node for node in looks if isinstance(node, Load)}
    plain = producer.parts == 1 and len(producer.stores) == 1 and producer.stores[0].body == Name(GROUPED_PARTS[0])
    if not plain or producer.columns % 2 or set(found) != {0, half} or len(set(looks)) != 2:
        return None
    if consumer.shape != (producer.rows, half) or any(node.view.strides != (producer.columns, 1) for node in looks):
        return None
    if any(isinstance(node, Index) for store in consumer.stores for node in walk(store.body)):
        return None
    swap: dict[Expression, Expression] = {found[0]: Name(GROUPED_PARTS[0]), found[half]: Name(GROUPED_PARTS[1])}
    stores = tuple(StoreOp(store.view, swapped(store.body, swap), store.dtype) for store in consumer.stores)
    return replace(producer, columns=half, parts=2, stores=stores, origin=renamed_origin(producer, consumer))
