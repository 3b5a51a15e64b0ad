"""Reading and rewriting the bodies of a kernel, whatever its kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from bottega.compiler.expression import Expression, Gather, Load, reads
from bottega.compiler.kernel import (
    Attention,
    Convolution,
    FunctionCall,
    GroupedProduct,
    Kernel,
    Pool,
    Product,
    Recurrence,
    Reduction,
    RowProgram,
    Scan,
    StoreOp,
)
from bottega.compiler.view import View

_READ = "buffers read"
Rewrite = Callable[[Expression], Expression | None]


def stores(kernel: Kernel) -> tuple[StoreOp, ...]:
    if isinstance(kernel, RowProgram):
        return (*kernel.row_stores, *kernel.element_stores)
    return () if isinstance(kernel, FunctionCall) else kernel.stores


def bodies(kernel: Kernel) -> Iterator[Expression]:
    if isinstance(kernel, RowProgram):
        yield from (reduction.body for reduction in kernel.reductions)
    if isinstance(kernel, Pool | Scan | GroupedProduct):
        yield kernel.element
    yield from (store.body for store in stores(kernel))


def made(kernel: Kernel) -> list[str]:
    """Buffers that the kernel fills."""
    if isinstance(kernel, FunctionCall):
        return [name for name in kernel.results if name]
    return list(dict.fromkeys(store.view.buffer for store in stores(kernel)))


def operands(kernel: Kernel) -> list[View]:
    """Views that are read whole, outside of any body: the factors of a product, a convolution's source."""
    if isinstance(kernel, Product):
        return [kernel.left, kernel.right]
    if isinstance(kernel, Convolution):
        return [kernel.source, kernel.weight]
    if isinstance(kernel, Attention):
        return [kernel.query, kernel.key, kernel.value, *([kernel.mask] if kernel.mask else [])]
    if isinstance(kernel, GroupedProduct):
        return [kernel.right, kernel.ends]
    if isinstance(kernel, Recurrence):
        return [kernel.gates, kernel.weight, *([kernel.bias] if kernel.bias else []), *kernel.begins]
    return (
        list(_views(kernel.arguments) + _views(tuple(v for _, v in kernel.keywords)))
        if isinstance(kernel, FunctionCall)
        else []
    )


def _views(values: tuple[object, ...]) -> list[View]:
    found: list[View] = []
    for value in values:
        if isinstance(value, View):
            found.append(value)
        elif isinstance(value, tuple):
            found += _views(value)
    return found


def loads(kernel: Kernel, buffer: str) -> list[Load | Gather]:
    return [node for body in bodies(kernel) for node in reads(body) if node.view.buffer == buffer]


def read(kernel: Kernel) -> frozenset[str]:
    """Buffers that the kernel reads. A call may also name a buffer in its text. Kept with the kernel, which never changes: fusion asks for
    every pair of kernels."""
    known: frozenset[str] | None = vars(kernel).get(_READ)
    if known is None:
        found = {view.buffer for view in operands(kernel)}
        found |= {node.view.buffer for body in bodies(kernel) for node in reads(body)}
        if isinstance(kernel, FunctionCall):
            found.add(kernel.function.split(".")[0])
        vars(kernel)[_READ] = known = frozenset(found)
    return known


def rewritten(kernel: Kernel, rewrite: Rewrite) -> Kernel | None:
    """The kernel with every body rewritten, or None where one cannot be."""
    failed = False

    def new(body: Expression) -> Expression:
        nonlocal failed
        made = rewrite(body)
        failed |= made is None
        return body if made is None else made

    def restored(kept: tuple[StoreOp, ...]) -> tuple[StoreOp, ...]:
        return tuple(StoreOp(store.view, new(store.body), store.dtype) for store in kept)

    result: Kernel = kernel
    if isinstance(kernel, RowProgram):
        reductions = tuple(Reduction(r.name, r.operation, new(r.body)) for r in kernel.reductions)
        result = dataclasses.replace(
            kernel,
            reductions=reductions,
            row_stores=restored(kernel.row_stores),
            element_stores=restored(kernel.element_stores),
        )
    elif isinstance(kernel, Pool | Scan | GroupedProduct):
        result = dataclasses.replace(kernel, element=new(kernel.element), stores=restored(kernel.stores))
    elif not isinstance(kernel, FunctionCall):
        result = dataclasses.replace(kernel, stores=restored(kernel.stores))
    return None if failed else result


def without_store(kernel: Kernel, buffer: str) -> Kernel:
    def kept(given: tuple[StoreOp, ...]) -> tuple[StoreOp, ...]:
        return tuple(store for store in given if store.view.buffer != buffer)

    if isinstance(kernel, RowProgram):
        return dataclasses.replace(kernel, row_stores=kept(kernel.row_stores), element_stores=kept(kernel.element_stores))
    return kernel if isinstance(kernel, FunctionCall) else dataclasses.replace(kernel, stores=kept(kernel.stores))


def renamed_origin(first: Kernel, second: Kernel) -> tuple[str, ...]:
    return (*first.origin, *second.origin)
