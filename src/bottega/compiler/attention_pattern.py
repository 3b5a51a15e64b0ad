"""Attention written out by hand, found again: a product, a softmax over its rows, and a product with the result.

The scores between may be scaled, and masked by a sum or by a comparison of positions; anything else is left as it was written.
"""

from __future__ import annotations

import math

from bottega.compiler.bodies import made, read, stores
from bottega.compiler.compose import permuted
from bottega.compiler.expression import Apply, Constant, Expression, Index, Load, Name
from bottega.compiler.kernel import ACCUMULATOR, Attention, FunctionCall, Kernel, Map, Product, RowProgram, StoreOp
from bottega.compiler.view import Buffer, contiguous_strides


def attentions(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """The kernels with every such group replaced by one."""
    place = 0
    while place < len(kernels):
        found = _group(kernels, place, buffers, returned)
        if found is not None:
            attention, gone = found
            last = max(gone)
            kernels = [
                attention if number == last else kernel
                for number, kernel in enumerate(kernels)
                if number == last or number not in gone
            ]
        else:
            place += 1
    return kernels


def _group(
    kernels: list[Kernel], place: int, buffers: dict[str, Buffer], returned: set[str]
) -> tuple[Attention, set[int]] | None:
    scores = kernels[place]
    if not isinstance(scores, Product) or len(scores.stores) != 1 or scores.stores[0].body != Name(ACCUMULATOR):
        return None
    gone, current, scale, mask, causal = {place}, scores.stores[0].view.buffer, 1.0, None, False
    shape = (*scores.batch, scores.rows, scores.columns)
    while True:
        following = _only_user(kernels, current, returned)
        if following is None:
            return None
        kernel = kernels[following]
        gone.add(following)
        if isinstance(kernel, Map):
            step = _scored(kernel, current, shape)
            if step is None:
                return None
            factor, added, triangle = step
            if mask is not None and (added is not None or factor != 1.0):
                return None
            scale, mask, causal = scale * factor, added if added is not None else mask, causal or triangle
            current = made(kernel)[0]
        elif isinstance(kernel, RowProgram):
            if not _is_softmax(kernel, current, shape):
                return None
            current = made(kernel)[0]
            break
        else:
            return None
    last = _only_user(kernels, current, returned)
    if last is None or isinstance(kernels[last], FunctionCall):
        return None
    output = kernels[last]
    if not isinstance(output, Product) or output.left.buffer != current or output.left.shape != shape:
        return None
    if output.left.strides != contiguous_strides(shape) or output.depth != scores.columns or output.batch != scores.batch:
        return None
    if causal and (mask is not None or scores.rows != scores.columns):
        return None
    gone.add(last)
    rank = len(scores.right.shape)
    key = permuted(scores.right, (*range(rank - 2), rank - 1, rank - 2))
    return Attention(
        batch=scores.batch,
        queries=scores.rows,
        keys=scores.columns,
        width=scores.depth,
        value_width=output.columns,
        query=scores.left,
        key=key,
        value=output.right,
        mask=mask.view if mask is not None else None,
        mask_dtype=mask.dtype if mask is not None else "",
        causal=causal,
        scale=scale,
        dtype=scores.dtype,
        stores=output.stores,
        origin=("attention",),
        unseeing="nan",
    ), gone


def _only_user(kernels: list[Kernel], buffer: str, returned: set[str]) -> int | None:
    users = [number for number, kernel in enumerate(kernels) if buffer in read(kernel)]
    return users[0] if len(users) == 1 and buffer not in returned else None


def _scored(kernel: Map, buffer: str, shape: tuple[int, ...]) -> tuple[float, Load | None, bool] | None:
    """A scaling, a mask that is added, or a causal triangle."""
    if len(kernel.stores) != 1 or kernel.shape != shape or not kernel.stores[0].view.contiguous:
        return None
    body = kernel.stores[0].body
    if not isinstance(body, Apply):
        return None
    score, other = _operand(body, buffer, shape)
    if score is None:
        return None
    if body.function == "mul" and isinstance(other, Constant):
        return float(other.value), None, False
    if body.function == "div" and body.arguments[0] is score and isinstance(other, Constant):
        return 1.0 / float(other.value), None, False
    if body.function == "add" and isinstance(other, Load):
        return 1.0, other, False
    return (1.0, None, True) if _is_triangle(body, score, len(shape)) else None


def _operand(body: Apply, buffer: str, shape: tuple[int, ...]) -> tuple[Load | None, Expression | None]:
    """The scores among two arguments (the last two of a `where`), and the other one."""
    pair = body.arguments[-2:]
    if len(pair) != 2:
        return None, None
    for mine, other in ((0, 1), (1, 0)):
        node = pair[mine]
        if isinstance(node, Load) and node.view.buffer == buffer and node.view.strides == contiguous_strides(shape):
            return node, pair[other]
    return None, None


def _is_triangle(body: Apply, score: Load, rank: int) -> bool:
    """where(column <= row, score, -inf), in either order."""
    if body.function != "where":
        return False
    condition, yes, no = body.arguments
    hidden = no if yes == score else yes
    if not (isinstance(hidden, Constant) and float(hidden.value) == -math.inf and isinstance(condition, Apply)):
        return False
    distance = Apply("sub", (Index(rank - 1), Index(rank - 2)))
    if len(condition.arguments) != 2 or condition.arguments[0] != distance:
        return False
    limit = condition.arguments[1]
    if not isinstance(limit, Constant):
        return False
    if yes == score:
        return condition.function == "le" and limit.value == 0
    return condition.function in ("gt", "ge") and limit.value == (0 if condition.function == "gt" else 1)


def _is_softmax(rows: RowProgram, buffer: str, shape: tuple[int, ...]) -> bool:
    if (*rows.kept, *rows.reduced) != shape or len(rows.reduced) != 1 or rows.row_stores or len(rows.element_stores) != 1:
        return False
    source = next((n for n in (rows.reductions[0].body,) if isinstance(n, Load) and n.view.buffer == buffer), None)
    if source is None or len(rows.reductions) != 2 or rows.reductions[0].operation != "max":
        return False
    shifted = Apply("exp", (Apply("sub", (source, Name(rows.reductions[0].name))),))
    wanted = Apply("div", (shifted, Name(rows.reductions[1].name)))
    store: StoreOp = stores(rows)[0]
    return rows.reductions[1].body == shifted and rows.reductions[1].operation == "sum" and store.body == wanted
