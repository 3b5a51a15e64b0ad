"""Operators that reduce rows, and those that normalise by what they reduced: one row program each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bottega.compiler.compose import reshaped
from bottega.compiler.expression import Cast, Expression, Index, Load, Name, apply, finite_or_zero
from bottega.compiler.kernel import Reduction, RowProgram, StoreOp
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope, squeezed_shape, turned
from bottega.compiler.sizes import marked, wrapped
from bottega.compiler.view import Shape, View, contiguous_strides

PLAIN = {
    "sum": "sum",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
    "argmax": "argmax",
    "argmin": "argmin",
    "any": "any",
    "all": "all",
}
OPERATORS = frozenset(
    (
        *PLAIN,
        *("mean", "max", "min", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm", "logsumexp", "softmax"),
        *("_softmax", "log_softmax", "_log_softmax", "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"),
        *(
            "_native_batch_norm_legit_functional",
            "_native_batch_norm_legit_no_training",
            "native_batch_norm",
            "cosine_similarity",
        ),
        *("_native_batch_norm_legit", "native_layer_norm", "native_group_norm", "count_nonzero", "aminmax"),
        *("cdist", "_cdist_forward", "topk"),
    )
)


MOST_TOP, LONGEST_TOP = 8, 8192
"""Elements that are taken out of a row one after the other, and how long a row may be that one program holds meanwhile."""
SHORT_POINTS = 64
"""Coordinates of points whose distances are not worth a matrix product."""


def lower(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator = scope.node.operator
    if operator in ("max", "min") and scope.argument("other") is not None:
        shape, dtype = scope.spec()
        pair = [scope.load(scope.argument(name), shape) for name in ("self", "other")]
        return scope.map(apply(f"{operator}imum", *pair), shape, dtype)
    if "norm" in operator and operator not in ("norm", "linalg_vector_norm"):
        return _normalised(scope, operator)
    if operator == "cosine_similarity":
        return _cosine(scope)
    if "cdist" in operator:
        return _distances(scope)
    if operator == "topk":
        return _top(scope), None
    x = scope.operand("self")
    dims, keep = _dims(scope, x.shape), bool(scope.argument("keepdim"))
    if not x.shape:
        raise scope.refuse("reduces a single number")
    body: Expression = Load(x.view, x.dtype)
    if "softmax" in operator:
        return _softmax(scope, x, body, "log" in operator)
    if operator in ("max", "min", "aminmax") and len(scope.node.outputs) > 1:
        words = ("max", "argmax") if operator == "max" else ("min", "argmin") if operator == "min" else ("min", "max")
        return tuple(_reduced(scope, x, dims, keep, word, body, number) for number, word in enumerate(words))
    if operator in ("max", "min"):
        return _reduced(scope, x, dims, keep, operator, body)
    if operator == "count_nonzero":
        return _reduced(scope, x, dims, keep, "sum", Cast("int64", apply("ne", body, 0)))
    if operator in PLAIN:
        if scope.spec()[1] != x.dtype and operator in ("sum", "prod"):
            body = Cast(scope.spec()[1], body)
        if operator in ("any", "all"):
            body = Cast("bool", body)
        return _reduced(scope, x, dims, keep, PLAIN[operator], body)
    if operator == "mean":
        total = apply("div", Name("total"), scope.count(x, dims))
        return _row_result(scope, x, dims, keep, [("total", "sum", body)], total)
    if operator in ("var", "std", "var_mean", "std_mean"):
        return _moments(scope, x, dims, keep, body, operator)
    if operator == "logsumexp":
        top = finite_or_zero(Name("top"))
        sums = [("top", "max", body), ("total", "sum", apply("exp", apply("sub", body, top)))]
        return _row_result(scope, x, dims, keep, sums, apply("add", apply("log", Name("total")), top))
    if operator in ("linalg_vector_norm", "norm"):
        return _length(scope, x, dims, keep, body)
    raise scope.refuse("is not understood")


def _dims(scope: LoweringScope, shape: Shape) -> tuple[int, ...]:
    dim = scope.argument("dim")
    if dim is None or dim == ():
        return tuple(range(len(shape)))
    return tuple(sorted(d % max(len(shape), 1) for d in (dim if isinstance(dim, tuple) else (dim,))))


def _row_result(
    scope: LoweringScope,
    x: LoweredTensor,
    dims: tuple[int, ...],
    keep: bool,
    reductions: Sequence[tuple[str, str, Expression]],
    body: Expression,
    number: int = 0,
) -> LoweredTensor:
    dtype = scope.spec(number)[1]
    return scope.rows(x.shape, dims, reductions, body, None, dtype, keep, f"_{number}" if number else "")


def _reduced(
    scope: LoweringScope, x: LoweredTensor, dims: tuple[int, ...], keep: bool, word: str, body: Expression, number: int = 0
) -> LoweredTensor:
    name = {"sum": "total", "prod": "product", "max": "top", "min": "bottom"}.get(word, "found")
    if word.startswith("arg") and len(dims) > 1 and len(dims) != len(x.shape):
        raise scope.refuse("finds a place over several dimensions")
    return _row_result(scope, x, dims, keep, [(name, word, body)], Name(name), number)


def _top(scope: LoweringScope) -> LoweredTensor:
    """The largest of each row, then the largest of the others, and so on. Places are torch's: of equals it says nothing. NaN is the largest: then
    nothing equals the maximum, and the first NaN is taken."""
    x, count = scope.operand("self"), int(scope.argument("k"))
    (shape, dtype), name = scope.spec(), scope.node.name
    dim = scope.argument("dim") % max(len(x.shape), 1)
    asked = (node.arguments for node in scope.graph.nodes if node.operator == "getitem")
    if any(each["self"].name == name and each["index"] for each in asked):
        raise scope.refuse("places are asked for")
    if scope.argument("largest") is False:
        raise scope.refuse("takes the smallest, which may be NaN where nothing else is left")
    if not (x.floating and x.shape and 0 < count <= MOST_TOP and x.shape[dim] <= LONGEST_TOP):
        raise scope.refuse("takes many elements, or of long rows")
    axes = tuple(axis for axis in range(len(x.shape)) if axis != dim)
    order, kept = (*axes, dim), tuple(x.shape[axis] for axis in axes)
    body: Expression = Load(x.view, x.dtype)
    buffer = scope.fresh(shape, dtype)
    strides = tuple(contiguous_strides(shape)[axis] for axis in axes if shape[axis] != 1)
    reductions: list[Reduction] = []
    stores: list[StoreOp] = []
    for number in range(count):
        value, place = f"top{number}", f"place{number}"
        reductions.append(Reduction(value, "max", turned(body, x.shape, order)))
        if number + 1 < count:
            found = apply("or", apply("eq", body, Name(value)), apply("ne", body, body))
            found = apply("where", found, Index(dim), x.shape[dim])
            reductions.append(Reduction(place, "min", turned(found, x.shape, order)))
            body = apply("where", apply("eq", Index(dim), Name(place)), -math.inf, body)
        view = View(buffer.name, squeezed_shape(kept), strides, number * contiguous_strides(shape)[dim])
        stores.append(StoreOp(view, Name(value), dtype))
    scope.state(RowProgram(squeezed_shape(kept), (x.shape[dim],), tuple(reductions), tuple(stores), (), scope.origin))
    return LoweredTensor(marked(buffer), dtype)


def _moments(
    scope: LoweringScope, x: LoweredTensor, dims: tuple[int, ...], keep: bool, body: Expression, operator: str
) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    correction = scope.argument("correction")
    if correction is None:
        correction = 1 if scope.argument("unbiased") in (None, True) else 0
    mean = apply("div", Name("total"), scope.count(x, dims))
    centred = apply("sub", body, mean)
    reductions = [("total", "sum", body), ("spread", "sum", apply("mul", centred, centred))]
    variance = apply("div", Name("spread"), scope.count(x, dims, correction))
    result = apply("sqrt", variance) if operator.startswith("std") else variance
    if operator.endswith("_mean"):
        first = _row_result(scope, x, dims, keep, reductions, result)
        return first, _row_result(scope, x, dims, keep, reductions[:1], mean, 1)
    return _row_result(scope, x, dims, keep, reductions, result)


def _distances(scope: LoweringScope) -> LoweredTensor:
    """Of all pairs of rows: the norm of their difference, over a dimension that neither of them has alone."""
    space = (*scope.spec()[0], scope.operand("x1").shape[-1])
    if scope.argument("p") == 2 and space[-1] > SHORT_POINTS:
        raise scope.refuse("which torch computes by a matrix product")

    def spread(tensor: LoweredTensor, place: int) -> View:
        view = tensor.view
        shape, strides = list(view.shape), list(view.strides)
        shape.insert(len(shape) - place, 1)
        strides.insert(len(strides) - place, 0)
        return View(view.buffer, tuple(shape), tuple(strides), view.offset, view.text).broadcast(space)

    first, second = (spread(scope.operand(name), place) for name, place in (("x1", 1), ("x2", 2)))
    x, y = scope.operand("x1"), scope.operand("x2")
    body = apply("sub", Load(first, x.dtype), Load(second, y.dtype))
    return _length(scope, LoweredTensor(first, x.dtype), (len(space) - 1,), False, body)


def _length(scope: LoweringScope, x: LoweredTensor, dims: tuple[int, ...], keep: bool, body: Expression) -> LoweredTensor:
    order = scope.argument("ord" if scope.node.operator == "linalg_vector_norm" else "p")
    order = 2 if order is None else order
    if order == 2:
        return _row_result(scope, x, dims, keep, [("total", "sum", apply("mul", body, body))], apply("sqrt", Name("total")))
    if order == 1:
        return _row_result(scope, x, dims, keep, [("total", "sum", apply("abs", body))], Name("total"))
    if math.isinf(order) and order > 0:
        return _row_result(scope, x, dims, keep, [("top", "max", apply("abs", body))], Name("top"))
    if order <= 0 or math.isinf(order):
        raise scope.refuse(f"a norm of order {order}")
    powers = [("total", "sum", apply("pow", apply("abs", body), float(order)))]
    return _row_result(scope, x, dims, keep, powers, apply("pow", Name("total"), 1.0 / order))


def _softmax(scope: LoweringScope, x: LoweredTensor, body: Expression, logarithm: bool) -> LoweredTensor:
    dims = (scope.argument("dim") % len(x.shape),)
    shifted = apply("sub", body, Name("top"))
    reductions = [("top", "max", body), ("total", "sum", apply("exp", shifted))]
    result = (
        apply("sub", shifted, apply("log", Name("total"))) if logarithm else apply("div", apply("exp", shifted), Name("total"))
    )
    return scope.rows(x.shape, dims, reductions, None, result, scope.spec()[1])


def _cosine(scope: LoweringScope) -> LoweredTensor:
    first, second = scope.operand("x1"), scope.operand("x2")
    if first.shape != second.shape:
        raise scope.refuse("of tensors that differ in shape")
    dims = (scope.argument("dim") % len(first.shape),)
    a, b = Load(first.view, first.dtype), Load(second.view, second.dtype)
    reductions = [
        ("dot", "sum", apply("mul", a, b)),
        ("first", "sum", apply("mul", a, a)),
        ("second", "sum", apply("mul", b, b)),
    ]
    lengths = [apply("maximum", apply("sqrt", Name(name)), scope.epsilon()) for name in ("first", "second")]
    return _row_result(scope, first, dims, False, reductions, apply("div", Name("dot"), apply("mul", *lengths)))


def _normalised(scope: LoweringScope, operator: str) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    x = scope.operand("input")
    weight, bias = scope.optional("weight"), scope.optional("bias")
    if operator in ("layer_norm", "rms_norm", "native_layer_norm"):
        width = len(scope.argument("normalized_shape"))
        dims = tuple(range(len(x.shape) - width, len(x.shape)))
        gain = None if weight is None else Load(weight.view.broadcast(x.shape), weight.dtype)
        shift = None if bias is None else Load(bias.view.broadcast(x.shape), bias.dtype)
        body: Expression = Load(x.view, x.dtype)
        if operator == "rms_norm":
            scale = apply("rsqrt", apply("add", apply("div", Name("total"), scope.count(x, dims)), scope.epsilon()))
            result = _scaled(apply("mul", body, scale), gain, shift)
            return scope.rows(x.shape, dims, [("total", "sum", apply("mul", body, body))], None, result, x.dtype)
        made = _standardised(scope, x, x, x.shape, dims, gain, shift)
        return (made, None, None) if operator == "native_layer_norm" else made
    if operator in ("group_norm", "native_group_norm"):
        made = _grouped(scope, x, scope.argument("num_groups" if operator == "group_norm" else "group"), weight, bias)
        return made if operator == "group_norm" else (made, None, None)
    rank = len(x.shape)
    gain = None if weight is None else scope.along(weight, 1, x.shape)
    shift = None if bias is None else scope.along(bias, 1, x.shape)
    if operator == "instance_norm":
        if scope.argument("use_input_stats") is False:
            raise scope.refuse("by running statistics")
        return _standardised(scope, x, x, x.shape, tuple(range(2, rank)), gain, shift)
    if scope.argument("training"):
        made = _standardised(scope, x, x, x.shape, (0, *range(2, rank)), gain, shift)
    else:
        mean, variance = scope.operand("running_mean"), scope.operand("running_var")
        scale = apply("rsqrt", apply("add", scope.along(variance, 1, x.shape), scope.epsilon()))
        centred = apply("sub", Load(x.view, x.dtype), scope.along(mean, 1, x.shape))
        made = scope.map(_scaled(apply("mul", centred, scale), gain, shift), x.shape, x.dtype)
    return made if operator == "batch_norm" else (made, *[None] * (len(scope.node.outputs) - 1))


def _grouped(
    scope: LoweringScope, x: LoweredTensor, groups: int, weight: LoweredTensor | None, bias: LoweredTensor | None
) -> LoweredTensor:
    batch, channels, *space = x.shape
    fine = (batch, groups, channels // groups, *space)
    x = x if reshaped(x.view, fine) is not None else scope.dense(x)
    seen = reshaped(x.view, fine)
    assert seen is not None
    axes = (
        x.view.axis_text(0),
        str(groups),
        f"{wrapped(x.view.axis_text(1))} // {groups}",
        *(x.view.axis_text(a) for a in range(2, len(x.shape))),
    )
    look = LoweredTensor(View(seen.buffer, seen.shape, seen.strides, seen.offset, x.view.text, axes), x.dtype)

    def channelled(tensor: LoweredTensor | None) -> Load | None:
        if tensor is None:
            return None
        strides = tuple({1: channels // groups, 2: 1}.get(axis, 0) for axis in range(len(fine)))
        return Load(View(tensor.view.buffer, fine, strides, tensor.view.offset, tensor.view.text), tensor.dtype)

    dims = tuple(range(2, len(fine)))
    return _standardised(scope, x, look, fine, dims, channelled(weight), channelled(bias))


def _standardised(
    scope: LoweringScope,
    x: LoweredTensor,
    look: LoweredTensor,
    space: Shape,
    dims: tuple[int, ...],
    gain: Load | None,
    shift: Load | None,
) -> LoweredTensor:
    """(x - mean) / sqrt(variance + eps), times a gain, plus a shift, for every row along `dims`."""
    body: Expression = Load(look.view, look.dtype)
    count = scope.count(look, dims)
    centred = apply("sub", body, apply("div", Name("total"), count))
    scale = apply("rsqrt", apply("add", apply("div", Name("spread"), count), scope.epsilon()))
    result = _scaled(apply("mul", centred, scale), gain, shift)
    reductions = [("total", "sum", body), ("spread", "sum", apply("mul", centred, centred))]
    return scope.rows(space, dims, reductions, None, result, x.dtype, stored=x.shape)


def _scaled(body: Expression, gain: Load | None, shift: Load | None) -> Expression:
    body = body if gain is None else apply("mul", body, gain)
    return body if shift is None else apply("add", body, shift)
