"""Loads as lines: the address from the space, the mask from the indices that it moves along, the neutral value from the kernel."""

from __future__ import annotations

from collections.abc import Callable

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.space import IndexSpace
from bottega.compiler.backends.triton.spelling import ATOM, loaded, wrap
from bottega.compiler.expression import Expression, Gather, Index, Load, views, walk
from bottega.compiler.kernel import StoreOp
from bottega.compiler.view import View

Masks = Callable[[frozenset[int]], str]
"""The mask's text for something that moves along these groups of loops; empty where none is needed."""


def reader(space: IndexSpace, masks: Masks, other: Callable[[Load | Gather], str]) -> Callable[[Load | Gather, str], str]:
    """`other` gives the value outside of the mask, empty where it does not matter."""

    def load(node: Load | Gather, position: str) -> str:
        writer = space.writer
        address = space.address(node.view)
        if isinstance(node, Gather):
            level = ATOM if position.isidentifier() or position.endswith(")") else 0
            step = space.stride(node.view, len(space.groups) - 1, 0, node.axis_stride) if node.axis_stride != 1 else ""
            wide = ".to(tl.int64)" if writer.large and step else ""
            address += f" + {wrap(position, level, ATOM)}{wide}" + (f" * {step}" if step else "")
        mask = masks(moves(space, node))
        arguments = f", mask={mask}" if mask else ""
        if mask and other(node):
            arguments += f", other={other(node)}"
        word = space.called(node.view) or writer.short.get(node.view.buffer, "t")
        name = writer.again(node, word)
        writer.line(f"{name} = {loaded(f'tl.load({address}{arguments})', node.dtype)}")
        return name

    return load


def moves(space: IndexSpace, expression: Expression) -> frozenset[int]:
    """The groups of loops along which an expression changes."""
    found: set[int] = set()
    for view in views(expression):
        found |= space.depends(view)
    for node in walk(expression):
        if isinstance(node, Index):
            for number, group in enumerate(space.groups):
                if any(node.axis in loop.axes for loop in group.loops):
                    found.add(number)
    return frozenset(found)


def store(
    space: IndexSpace, emitter: TritonEmitter, stores: list[StoreOp], masks: Masks, text: Callable[[View], str] | None = None
) -> None:
    """Writes what is stored, all bodies first."""
    texts = emitter.write([item.body for item in stores])
    for item, value in zip(stores, texts):
        address = text(item.view) if text else space.address(item.view, written=True)
        mask = masks(space.depends(item.view))
        space.writer.line(f"tl.store({address}, {value}{f', mask={mask}' if mask else ''})")


def barriers(expressions: list[Expression]) -> list[int]:
    """Axes whose index is used must stay loops of their own."""
    axes = {node.axis for body in expressions for node in walk(body) if isinstance(node, Index)}
    return sorted({edge for axis in axes for edge in (axis, axis + 1)})
