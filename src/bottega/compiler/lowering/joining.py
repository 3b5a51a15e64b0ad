"""Tensors joined along a dimension, as a map: each element is read from the piece that it lies in, so that what comes before and after fuses.

Rotary embeddings are written that way: `cat((-b, a))` becomes one load and a sign in the kernel that multiplies.
"""

from __future__ import annotations

from bottega.compiler.expression import Expression, Gather, Index, Load, apply
from bottega.compiler.kernel import Map, StoreOp
from bottega.compiler.lowering.calls import call_of
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope, squeezed, squeezed_body, squeezed_shape
from bottega.compiler.sizes import marked
from bottega.compiler.view import View

OPERATORS = frozenset(("cat", "stack"))
MOST_PIECES = 2
"""Every piece is read for every element; with more of them torch's copies are less work."""


def lower(scope: LoweringScope) -> LoweredTensor:
    shape, dtype = scope.spec()
    dim = (scope.argument("dim") or 0) % len(shape)
    pieces = [scope.tensor(piece) for piece in scope.argument("tensors")]
    if scope.node.operator == "stack":
        pieces = [_as_one(piece, dim) for piece in pieces]
    pieces = [piece for piece in pieces if 0 not in piece.shape]  # what a rotary embedding of the whole width leaves as it is
    if (
        not pieces
        or len(pieces) > MOST_PIECES
        or any(piece.dtype != dtype or len(piece.shape) != len(shape) for piece in pieces)
    ):
        raise scope.refuse("of many tensors, or of several types")
    body: Expression | None = None
    start = shape[dim]
    alike = len({piece.shape[dim] for piece in pieces}) == 1
    for piece in reversed(pieces):
        start -= piece.shape[dim]
        element = _within(piece, shape, dim, start, alike)
        body = element if body is None else apply("where", apply("lt", Index(dim), start + piece.shape[dim]), element, body)
    assert body is not None
    buffer = scope.fresh(shape, dtype)
    whole = marked(buffer)
    store = StoreOp(squeezed(whole), squeezed_body(body, shape), dtype)
    scope.state(Map(squeezed_shape(shape), (store,), scope.origin), call_of(scope, (buffer.name,)))
    return LoweredTensor(whole, dtype)


def _as_one(piece: LoweredTensor, dim: int) -> LoweredTensor:
    """A piece of a stack, as one of a row of such pieces."""
    view = piece.view
    shape, strides = (*view.shape[:dim], 1, *view.shape[dim:]), (*view.strides[:dim], 0, *view.strides[dim:])
    return LoweredTensor(View(view.buffer, shape, strides, view.offset, view.text), piece.dtype)


def _within(piece: LoweredTensor, shape: tuple[int, ...], dim: int, start: int, alike: bool) -> Expression:
    """The piece's element at the place in the whole, or any other of its elements where the whole is read outside of it.

    Of pieces that are all alike, or of a first one that divides the whole, it is the one at the remainder: neighbours stay neighbours, so that they
    are read together.
    """
    view = piece.view
    strides = tuple(0 if axis == dim else stride for axis, stride in enumerate(view.strides))
    if piece.shape == shape:
        return Load(view, piece.dtype)
    if piece.shape[dim] == 1:
        return Load(View(view.buffer, shape, strides, view.offset, view.text), piece.dtype)
    index: Expression = Index(dim) if start == 0 else apply("sub", Index(dim), start)
    alike |= start == 0 and shape[dim] % piece.shape[dim] == 0
    if alike:
        index = apply("remainder", Index(dim), piece.shape[dim])
    elif start > 0:
        index = apply("maximum", index, 0)
    if not alike and start + piece.shape[dim] < shape[dim]:
        index = apply("minimum", index, piece.shape[dim] - 1)
    whole = View(view.buffer, shape, strides, view.offset, view.text)
    return Gather(whole, view.strides[dim], piece.shape[dim], index, piece.dtype)
