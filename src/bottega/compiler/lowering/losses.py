"""Losses: what each element or row costs, and then, for a mean or a sum, one reduction over all of it."""

from __future__ import annotations

import torch

from bottega.compiler.expression import Expression, Gather, Load, Name, apply
from bottega.compiler.lowering.elementwise import softplus
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.traced_graph import refs
from bottega.compiler.view import View

NONE, MEAN = 0, 1
OPERATORS = frozenset(
    (
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
        *("kl_div", "soft_margin_loss", "hinge_embedding_loss", "margin_ranking_loss", "poisson_nll_loss"),
        *("cross_entropy_loss", "nll_loss", "nll_loss_nd"),
    )
)


def lower(scope: LoweringScope) -> LoweredTensor:
    operator = scope.node.operator
    if operator in ("cross_entropy_loss", "nll_loss", "nll_loss_nd"):
        return _classes(scope, operator == "cross_entropy_loss")
    first = scope.operand(
        "input1" if operator == "margin_ranking_loss" else "input" if operator == "poisson_nll_loss" else "self"
    )
    first = _wide(scope, first)
    reduction = int(scope.argument("reduction"))
    body = _element(scope, operator, first)
    if reduction == NONE:
        return scope.map(body, first.shape, scope.spec()[1])
    dims = tuple(range(len(first.shape)))
    total: Expression = Name("total")
    total = apply("div", total, scope.count(first, dims)) if reduction == MEAN else total
    return scope.rows(first.shape, dims, [("total", "sum", body)], total, None, scope.spec()[1])


def _wide(scope: LoweringScope, first: LoweredTensor) -> LoweredTensor:
    """Over all that is compared: torch warns where one side repeats along the other, but computes it."""
    given = [scope.values.get(ref.name) for ref in refs(scope.node.arguments.values())]
    shape = tuple(torch.broadcast_shapes(*(tensor.shape for tensor in given if isinstance(tensor, LoweredTensor))))
    return first if shape == first.shape else LoweredTensor(first.view.broadcast(shape), first.dtype)


def _element(scope: LoweringScope, operator: str, first: LoweredTensor) -> Expression:
    shape = first.shape
    x: Expression = Load(first.view, first.dtype)

    def get(name: str) -> Expression:
        return scope.load(scope.argument(name), shape)

    y = get("input2" if operator == "margin_ranking_loss" else "target")
    gap = apply("sub", x, y)
    match operator:
        case "mse_loss":
            return apply("mul", gap, gap)
        case "l1_loss":
            return apply("abs", gap)
        case "smooth_l1_loss":
            beta = get("beta")
            near = apply("div", apply("mul", 0.5, apply("mul", gap, gap)), beta)
            return apply(
                "where", apply("lt", apply("abs", gap), beta), near, apply("sub", apply("abs", gap), apply("mul", 0.5, beta))
            )
        case "huber_loss":
            delta = get("delta")
            far = apply("mul", delta, apply("sub", apply("abs", gap), apply("mul", 0.5, delta)))
            return apply("where", apply("le", apply("abs", gap), delta), apply("mul", 0.5, apply("mul", gap, gap)), far)
        case "binary_cross_entropy":
            logs = [apply("maximum", apply("log", p), -100.0) for p in (x, apply("sub", 1.0, x))]
            loss = apply("neg", apply("add", apply("mul", y, logs[0]), apply("mul", apply("sub", 1.0, y), logs[1])))
        case "binary_cross_entropy_with_logits":
            soft = softplus(apply("neg", x), 1.0, 1e30)
            if scope.argument("pos_weight") is not None:
                soft = apply("mul", apply("add", 1.0, apply("mul", apply("sub", get("pos_weight"), 1.0), y)), soft)
            loss = apply("add", apply("mul", apply("sub", 1.0, y), x), soft)
        case "kl_div":
            if scope.argument("log_target"):
                return apply("mul", apply("exp", y), apply("sub", y, x))
            own = apply("where", apply("eq", y, 0.0), 0.0, apply("mul", y, apply("log", y)))  # NaN below zero, as torch has it
            return apply("sub", own, apply("mul", y, x))
        case "soft_margin_loss":
            return apply("log1p", apply("exp", apply("neg", apply("mul", x, y))))  # as torch has it: infinite where exp is
        case "hinge_embedding_loss":
            far = apply("maximum", apply("sub", get("margin"), x), 0.0)
            return apply("add", apply("where", apply("ne", y, 1.0), far, 0.0), apply("where", apply("ne", y, -1.0), x, 0.0))
        case "margin_ranking_loss":
            raw = apply("add", apply("mul", apply("neg", get("target")), gap), get("margin"))
            return apply("maximum", raw, 0.0)
        case _:
            raise scope.refuse("is not understood")
    return loss if scope.argument("weight") is None else apply("mul", loss, get("weight"))


def _classes(scope: LoweringScope, logits: bool) -> LoweredTensor:
    """Cross entropy with class indices: the logit of the target is gathered, the rest of the row only enters the sum."""
    x, target = scope.operand("self"), scope.operand("target")
    smoothing = scope.argument("label_smoothing") or 0.0
    weight = scope.optional("weight")
    if target.floating:
        return _against_probabilities(scope, x, target)
    if weight is not None and smoothing:
        raise scope.refuse("with class weights and smoothed labels")
    axis = 1 if len(x.shape) > 1 else 0
    kept = tuple(a for a in range(len(x.shape)) if a != axis)
    kept_shape = tuple(x.shape[a] for a in kept)
    label = Load(View(target.view.buffer, kept_shape, target.view.strides, target.view.offset, target.view.text), target.dtype)
    row = View(x.view.buffer, kept_shape, tuple(x.view.strides[a] for a in kept), x.view.offset, x.view.text)
    counted = apply("ne", label, int(scope.argument("ignore_index")))
    picked = Gather(row, x.view.strides[axis], x.shape[axis], apply("where", counted, label, 0), x.dtype)
    body: Expression = Load(x.view, x.dtype)
    reductions = []
    loss: Expression = apply("neg", picked)
    if logits:
        reductions = [("top", "max", body), ("total", "sum", apply("exp", apply("sub", body, Name("top"))))]
        level = apply("log", Name("total"))  # above the top: by itself, or large scores leave nothing of it
        loss = apply("sub", level, apply("sub", picked, Name("top")))
        if smoothing:
            reductions.append(("plain", "sum", body))
            mean = apply("sub", level, apply("sub", apply("div", Name("plain"), scope.count(x, (axis,))), Name("top")))
            loss = apply("add", apply("mul", 1.0 - smoothing, loss), apply("mul", smoothing, mean))
    share: Expression = apply("where", counted, 1.0, 0.0)
    if weight is not None:
        flat = View(weight.view.buffer, kept_shape, (0,) * len(kept_shape), weight.view.offset, weight.view.text)
        classed = Gather(flat, weight.view.strides[0], x.shape[axis], apply("where", counted, label, 0), weight.dtype)
        loss, share = apply("mul", loss, classed), apply("where", counted, classed, 0.0)
    loss = apply("where", counted, loss, 0.0)
    dtype, reduction = scope.spec()[1], int(scope.argument("reduction"))
    if logits:
        made = scope.rows(x.shape, (axis,), reductions, loss, None, dtype, suffix="" if reduction == NONE else "_rows")
    else:
        made = scope.map(loss, kept_shape, dtype, "" if reduction == NONE else "_rows")
    if reduction == NONE:
        return made
    dims = tuple(range(len(kept_shape)))
    sums: list[tuple[str, str, Expression]] = [("total", "sum", Load(made.view, made.dtype))]
    if reduction != MEAN:
        return scope.rows(kept_shape, dims, sums, Name("total"), None, dtype)
    sums.append(("counted", "sum", share))
    return scope.rows(kept_shape, dims, sums, apply("div", Name("total"), Name("counted")), None, dtype)


def _against_probabilities(scope: LoweringScope, x: LoweredTensor, target: LoweredTensor) -> LoweredTensor:
    """Cross entropy with a probability for each class: the row's sum of target times log-probability."""
    if scope.node.operator != "cross_entropy_loss" or scope.argument("weight") is not None:
        raise scope.refuse("with class probabilities and class weights")
    axis = 1 if len(x.shape) > 1 else 0
    smoothing = scope.argument("label_smoothing") or 0.0
    body: Expression = Load(x.view, x.dtype)
    wanted: Expression = Load(target.view, target.dtype)
    if smoothing:
        even = apply("div", smoothing, scope.count(x, (axis,)))
        wanted = apply("add", apply("mul", wanted, 1.0 - smoothing), even)
    reductions: list[tuple[str, str, Expression]] = [
        ("top", "max", body),
        ("total", "sum", apply("exp", apply("sub", body, Name("top")))),
        ("held", "sum", apply("mul", wanted, apply("sub", body, Name("top")))),
        ("whole", "sum", wanted),
    ]
    loss = apply("sub", apply("mul", apply("log", Name("total")), Name("whole")), Name("held"))
    dtype, reduction = scope.spec()[1], int(scope.argument("reduction"))
    made = scope.rows(x.shape, (axis,), reductions, loss, None, dtype, suffix="" if reduction == NONE else "_rows")
    if reduction == NONE:
        return made
    dims = tuple(range(len(made.shape)))
    total: Expression = Name("total")
    total = apply("div", total, scope.count(made, dims)) if reduction == MEAN else total
    return scope.rows(made.shape, dims, [("total", "sum", Load(made.view, made.dtype))], total, None, dtype)
