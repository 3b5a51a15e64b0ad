"""Matrix products in all their spellings, and attention."""

from __future__ import annotations

import math
from typing import Any

from bottega.compiler.compose import permuted, reshaped
from bottega.compiler.expression import Expression, Load, Name, apply, replace, walk
from bottega.compiler.kernel import ACCUMULATOR, Attention, Product, StoreOp
from bottega.compiler.lowering import calls
from bottega.compiler.lowering.calls import call_of
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.sizes import marked, wrapped
from bottega.compiler.view import Shape, View

OPERATORS = frozenset(
    (
        "linear",
        "mm",
        "matmul",
        "bmm",
        "addmm",
        "baddbmm",
        "einsum",
        "mv",
        "dot",
        "outer",
        "scaled_dot_product_attention",
        "addmv",
        "_scaled_mm",
    )
)


def lower(scope: LoweringScope) -> LoweredTensor:
    operator = scope.node.operator
    match operator:
        case "linear":
            return _linear(scope)
        case "mm" | "bmm":
            return _matmul(scope, scope.operand("self"), scope.operand("mat2"))
        case "matmul":
            return _matmul(scope, scope.operand("self"), scope.operand("other"))
        case "mv":
            return _matmul(scope, scope.operand("self"), scope.operand("vec"))
        case "addmv":
            return _matmul(scope, scope.operand("mat"), scope.operand("vec"), added=True)
        case "dot":
            return _dot(scope)
        case "outer":
            return _outer(scope)
        case "addmm":
            return _matmul(scope, scope.operand("mat1"), scope.operand("mat2"), added=True)
        case "baddbmm":
            return _matmul(scope, scope.operand("batch1"), scope.operand("batch2"), added=True)
        case "einsum":
            return _einsum(scope)
        case "_scaled_mm":
            return _scaled(scope)
        case _:
            return _attention(scope)


def _linear(scope: LoweringScope) -> LoweredTensor:
    x, weight, bias = scope.operand("input"), scope.operand("weight"), scope.optional("bias")
    shape, dtype = scope.spec()
    depth, columns = x.shape[-1], weight.shape[0]
    rows = math.prod(x.shape[:-1])
    flat = reshaped(x.view, (rows, depth))
    if flat is None:
        x = scope.dense(x)
        flat = reshaped(x.view, (rows, depth))
        assert flat is not None
    owner = weight.view.text
    buffer = scope.fresh(shape, dtype)
    space = (rows, columns)
    body: Expression = Name(ACCUMULATOR)
    if bias is not None:
        body = apply("add", body, scope.along(bias, 1, space))
    row_text = " * ".join(wrapped(x.view.axis_text(a)) for a in range(len(x.shape) - 1) if x.shape[a] != 1) or "1"
    right = permuted(weight.view, (1, 0))
    stored = View(buffer.name, space, (columns, 1), 0, buffer.name, (row_text, f"{owner}.shape[0]"))
    product = Product((), rows, columns, depth, flat, right, x.dtype, (StoreOp(stored, body, dtype),), ("linear",))
    scope.state(product, call_of(scope, (buffer.name,)))
    return LoweredTensor(marked(buffer), dtype)


def _matmul(scope: LoweringScope, left: LoweredTensor, right: LoweredTensor, added: bool = False) -> LoweredTensor:
    shape, dtype = scope.spec()
    first, second = left.view, right.view
    if len(first.shape) == 1:
        first = View(first.buffer, (1, *first.shape), (0, *first.strides), first.offset)
    if len(second.shape) == 1:
        second = View(second.buffer, (*second.shape, 1), (*second.strides, 0), second.offset)
    rows, depth, columns = first.shape[-2], first.shape[-1], second.shape[-1]
    batch = _broadcast(first.shape[:-2], second.shape[:-2])
    buffer = scope.fresh(shape, dtype)
    if len(batch) >= 1 and math.prod(second.shape[:-2]) == 1:
        flat = reshaped(first, (math.prod(first.shape[:-1]), depth))
        if flat is not None:
            # One matrix for the whole batch: a single product with more rows.
            first, second = flat, View(second.buffer, second.shape[-2:], second.strides[-2:], second.offset)
            batch, rows = (), first.shape[0]
    first = first.broadcast((*batch, rows, depth))
    second = second.broadcast((*batch, depth, columns))
    space = (*batch, rows, columns)
    body: Expression = Name(ACCUMULATOR)
    if added:
        body = _added(scope, body, space, shape)
    whole = reshaped(marked(buffer), space)
    assert whole is not None
    stored = View(whole.buffer, whole.shape, whole.strides, 0, buffer.name, ())
    kept = tuple(size for size in batch if size != 1)
    product = Product(
        kept,
        rows,
        columns,
        depth,
        _batched(first),
        _batched(second),
        left.dtype,
        (StoreOp(_batched(stored), _batched_body(body), dtype),),
        scope.origin,
    )
    scope.state(product, call_of(scope, (buffer.name,)))
    return LoweredTensor(marked(buffer), dtype)


def _added(scope: LoweringScope, body: Expression, space: Shape, shape: Shape) -> Expression:
    alpha, beta = scope.argument("alpha"), scope.argument("beta")
    other = scope.load(scope.argument("self"), shape)
    if space != shape:
        raise scope.refuse("is added to something of another shape")
    if "float" not in scope.spec()[1] and any(int(factor or 0) != (factor or 0) for factor in (alpha, beta)):
        raise scope.refuse("of whole numbers, by a fraction")
    body = body if alpha in (None, 1) else apply("mul", scope.constant(alpha), body)
    if beta == 0:
        return body
    return apply("add", body, other if beta in (None, 1) else apply("mul", scope.constant(beta), other))


def _batched(view: View) -> View:
    """Batch dimensions of size one left out; rows and columns always stay."""
    kept = [a for a, size in enumerate(view.shape) if size != 1 or a >= len(view.shape) - 2]
    shape, strides = tuple(view.shape[a] for a in kept), tuple(view.strides[a] for a in kept)
    return View(view.buffer, shape, strides, view.offset, view.text)


def _batched_body(body: Expression) -> Expression:
    return replace(body, {node: Load(_batched(node.view), node.dtype) for node in walk(body) if isinstance(node, Load)})


def _broadcast(first: Shape, second: Shape) -> Shape:
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (first, second)]
    return tuple(max(a, b) for a, b in zip(*padded))


def _scaled(scope: LoweringScope) -> LoweredTensor:
    """A product of floats of eight bits, with a scale for each operand: one number, or one for each row and column of the result."""
    left, right, bias = scope.operand("self"), scope.operand("mat2"), scope.optional("bias")
    shape, dtype = scope.spec()
    if scope.argument("scale_result") is not None or left.dtype != right.dtype:
        raise scope.refuse("with a scale of its result, or of two types")
    body: Expression = Name(ACCUMULATOR)
    for name in ("scale_a", "scale_b"):
        scale = scope.operand(name)
        if len(scale.shape) not in (0, 2) or any(size not in (1, full) for size, full in zip(scale.shape, shape)):
            raise scope.refuse("with scales of blocks")
        body = apply("mul", body, Load(scale.view.broadcast(shape), scale.dtype))
    if bias is not None:
        body = apply("add", body, scope.along(bias, 1, shape))
    buffer = scope.fresh(shape, dtype)
    stored = View(buffer.name, shape, (shape[1], 1), 0, buffer.name)
    store = StoreOp(stored, body, dtype)
    product = Product((), shape[0], shape[1], left.shape[1], left.view, right.view, left.dtype, (store,), ("scaled_product",))
    call = calls.own_overload(scope, (buffer.name,))
    scope.state(product, call)
    return LoweredTensor(marked(buffer), dtype)


def _dot(scope: LoweringScope) -> LoweredTensor:
    first, second = scope.operand("self"), scope.operand("tensor")
    body = apply("mul", Load(first.view, first.dtype), Load(second.view, second.dtype))
    return scope.rows(first.shape, (0,), [("total", "sum", body)], Name("total"), None, scope.spec()[1])


def _outer(scope: LoweringScope) -> LoweredTensor:
    shape, dtype = scope.spec()
    first, second = scope.operand("self"), scope.operand("vec2")
    body = apply("mul", scope.along(first, 0, shape), scope.along(second, 1, shape))
    return scope.map(body, shape, dtype)


def _einsum(scope: LoweringScope) -> LoweredTensor:
    """Two operands whose letters are batch, rows, columns or depth, each a run in one order: a product of permuted views."""
    equation, operands = str(scope.argument("equation")).replace(" ", ""), scope.argument("tensors")
    if len(operands) != 2 or "->" not in equation or "." in equation:
        raise scope.refuse(f"{equation} is not understood")
    (one, two), result = equation.split("->")[0].split(","), equation.split("->")[1]
    if any(len(set(word)) != len(word) for word in (one, two, result)):
        raise scope.refuse(f"{equation} repeats a letter")
    batch = [c for c in result if c in one and c in two]
    rows, columns = [c for c in result if c in one and c not in two], [c for c in result if c in two and c not in one]
    depth = [c for c in one if c in two and c not in result]
    if set(one) | set(two) != set(batch + rows + columns + depth) or not depth:
        raise scope.refuse(f"{equation} is not one matrix product")
    left, right = scope.tensor(operands[0]), scope.tensor(operands[1])
    sizes = {**dict(zip(one, left.shape)), **dict(zip(two, right.shape))}

    def arranged(tensor: LoweredTensor, word: str, *groups: list[str]) -> View | None:
        view = permuted(tensor.view, tuple(word.index(c) for group in groups for c in group))
        shape = tuple(math.prod(sizes[c] for c in group) for group in groups[-2:])
        return reshaped(view, (*(sizes[c] for c in groups[0]), *shape))

    first, second = arranged(left, one, batch, rows, depth), arranged(right, two, batch, depth, columns)
    if first is None or second is None:
        raise scope.refuse(f"{equation} needs a copy")
    shape, dtype = scope.spec()
    buffer = scope.fresh(shape, dtype)
    count = [math.prod(sizes[c] for c in group) for group in (rows, columns, depth)]
    space = (*(sizes[c] for c in batch), count[0], count[1])
    lying = permuted(marked(buffer), tuple(result.index(c) for c in batch + rows + columns))
    whole = reshaped(lying, space)
    if whole is None:
        raise scope.refuse(f"{equation} mixes rows and columns in its result")
    stored = View(whole.buffer, whole.shape, whole.strides, 0, buffer.name)
    kept = tuple(sizes[c] for c in batch if sizes[c] != 1)
    product = Product(
        kept,
        count[0],
        count[1],
        count[2],
        _batched(first),
        _batched(second),
        left.dtype,
        (StoreOp(_batched(stored), Name(ACCUMULATOR), dtype),),
        ("einsum",),
    )
    call = call_of(scope, (buffer.name,), "torch.einsum", (equation, left.view, right.view))
    scope.state(product, call)
    return LoweredTensor(marked(buffer), dtype)


def _attention(scope: LoweringScope) -> LoweredTensor:
    query, key, value = (scope.operand(name) for name in ("query", "key", "value"))
    mask = scope.optional("attn_mask")
    shape, dtype = scope.spec()
    if scope.argument("dropout_p"):
        raise scope.refuse("with dropout")
    batch = shape[:-2]
    queries, keys, width, value_width = query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1]
    given = scope.argument("scale")
    buffer = scope.fresh(shape, dtype)
    groups = max(key.shape[-3], value.shape[-3]) if scope.argument("enable_gqa") else 1
    if not {key.shape[-3], value.shape[-3]} <= {1, groups} and scope.argument("enable_gqa"):
        raise scope.refuse("with keys and values in groups of their own")
    shared = batch[-1] // groups if scope.argument("enable_gqa") else 1
    stored = marked(buffer)
    if shared > 1:  # heads as groups of those that share a key: the key repeats along a loop of its own
        batch = (*batch[:-1], groups, shared)
        looks = [_grouped(query.view, shared), _lone(key.view), _lone(value.view)]
        hidden = None if mask is None else _grouped(mask.view.broadcast((*shape[:-2], queries, keys)), shared)
        stored = _grouped(stored, shared)
    else:
        looks = [tensor.view for tensor in (query, key, value)]
        hidden = None if mask is None else mask.view
    seen = [_batched(view.broadcast((*batch, *view.shape[-2:]))) for view in looks]
    hidden = None if hidden is None else _batched(hidden.broadcast((*batch, queries, keys)))
    kernel = Attention(
        batch=tuple(size for size in batch if size != 1),
        queries=queries,
        keys=keys,
        width=width,
        value_width=value_width,
        query=seen[0],
        key=seen[1],
        value=seen[2],
        mask=hidden,
        mask_dtype="" if mask is None else mask.dtype,
        causal=bool(scope.argument("is_causal")),
        scale=float(given if given is not None else 1 / math.sqrt(width)),
        dtype=query.dtype,
        stores=(StoreOp(_batched(stored), Name(ACCUMULATOR), dtype),),
        origin=("attention",),
    )
    keywords: list[tuple[str, Any]] = []
    if mask is not None:
        keywords.append(("attn_mask", mask.view))
    if kernel.causal:
        keywords.append(("is_causal", True))
    if given is not None:
        keywords.append(("scale", given))
    if scope.argument("enable_gqa"):
        keywords.append(("enable_gqa", True))
    name = "F.scaled_dot_product_attention"
    call = call_of(scope, (buffer.name,), name, (query.view, key.view, value.view), tuple(keywords))
    scope.state(kernel, call)
    return LoweredTensor(marked(buffer), dtype)


def _grouped(view: View, shared: int) -> View:
    """Heads, the third dimension from the end, in groups of `shared`."""
    place = len(view.shape) - 3
    heads, step = view.shape[place], view.strides[place]
    shape = (*view.shape[:place], heads // shared, shared, *view.shape[place + 1 :])
    strides = (*view.strides[:place], step * shared, step, *view.strides[place + 1 :])
    return View(view.buffer, shape, strides, view.offset)


def _lone(view: View) -> View:
    """With a dimension of one behind the heads, along which a group of queries shares it."""
    place = len(view.shape) - 2
    shape, strides = (*view.shape[:place], 1, *view.shape[place:]), (*view.strides[:place], 0, *view.strides[place:])
    return View(view.buffer, shape, strides, view.offset)
