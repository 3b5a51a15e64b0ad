"""Operators that treat every element alone: arithmetic with constants, parameters and other tensors, and plain functions."""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.operator import BATCHED, Form, Operand, Operator, OperatorUse, form, forms, roles, unchanged
from bottega.tasks.synth.value import Shape

CONSTANTS = (0.1, 0.25, 0.3, 0.5, 0.7, 1.5, 1.7, 2.0, 2.5, 3.0)


def pointwise(name: str, text: str, family: str = "elementwise", **more: Any) -> Operator:
    return Operator(name, family, forms(text, "act"), **more)


def pairwise(name: str, text: str, **more: Any) -> Operator:
    """Of two tensors of one shape, or of what `others` says."""
    return pointwise(name, text, **{"others": (Operand("y", lambda s: s.shape),), "roles": roles("alone join")} | more)


def per_channel(s: OperatorUse) -> Shape:
    """The shape of a parameter with one number for each channel or feature."""
    if s.x.layout in ("ncl", "nchw", "ncdhw"):
        return (s.shape[1], *(1 for _ in s.shape[2:]))
    return (s.shape[-1],)


def _parameter(name: str, call: str, attribute: str, make: str, often: float = 1.0) -> Operator:
    made = (Form(call, ((attribute, make),)),)
    return Operator(name, "elementwise", made, BATCHED, {f"{attribute}_shape": per_channel}, often=often)


ELEMENTWISE = (
    pointwise("exp", "torch.exp({x}) | {x}.exp()"),
    pointwise("exp2", "torch.exp2({x}) | 2.0 ** {x}"),
    pointwise("expm1", "torch.expm1({x}) | {x}.expm1() | torch.exp({x}) - 1"),
    pointwise("log", "torch.log({x}) | {x}.log()", takes="positive"),
    pointwise("log2", "torch.log2({x}) | {x}.log2()", takes="positive"),
    pointwise("log1p", "torch.log1p({x}) | {x}.log1p() | torch.log(1 + {x})", takes="nonnegative"),
    pointwise("log_abs", "torch.log1p(torch.abs({x})) | torch.log({x}.abs() + 1.0) | torch.log1p({x}.abs())"),
    pointwise("signed_log", "torch.sign({x}) * torch.log1p(torch.abs({x}))"),
    pointwise("sqrt", "torch.sqrt({x}) | {x}.sqrt()", takes="nonnegative"),
    pointwise("signed_sqrt", "torch.sign({x}) * torch.sqrt(torch.abs({x}) + 1e-6) | {x}.sign() * ({x}.abs() + 1e-4).sqrt()"),
    pointwise("rsqrt", "torch.rsqrt({x}) | {x}.rsqrt() | 1.0 / torch.sqrt({x})", takes="positive"),
    pointwise("reciprocal", "torch.reciprocal({x}) | 1.0 / {x} | {x}.reciprocal()", takes="positive"),
    pointwise("square", "torch.square({x}) | {x} ** 2 | {x}.pow(2) | {x} * {x} | torch.pow({x}, 2)"),
    pointwise("cube", "{x} ** 3 | {x}.pow(3) | torch.pow({x}, 3)"),
    pointwise(
        "power",
        "torch.pow({x}, {exponent}) | {x} ** {exponent} | {x}.pow({exponent})",
        parameters={"exponent": (0.3, 0.5, 0.75, 1.5, 2.5)},
        takes="positive",
    ),
    pointwise("abs", "torch.abs({x}) | {x}.abs()"),
    pointwise("negate", "-{x} | torch.neg({x}) | {x}.neg()"),
    pointwise("sin", "torch.sin({x}) | {x}.sin()"),
    pointwise("cos", "torch.cos({x}) | {x}.cos()"),
    pointwise("atan", "torch.atan({x}) | {x}.atan()"),
    pointwise("asinh", "torch.asinh({x}) | {x}.asinh()"),
    pointwise("sinh", "torch.sinh({x}) | {x}.sinh()"),
    pointwise("erf", "torch.erf({x}) | {x}.erf()"),
    pointwise("snake", "{x} + torch.sin({frequency} * {x}) ** 2 / {frequency}", parameters={"frequency": (0.5, 2.0, 3.0)}),
    pointwise("gaussian", "torch.exp(-{x} ** 2 / 2) | torch.exp(-0.5 * {x} * {x}) | ({x}.square() * -0.5).exp()"),
    pointwise(
        "logit",
        "torch.logit({x}) | {x}.logit() | torch.log({x} / (1 - {x}))",
        contents="inner",
        takes="unit",
        roles=roles("alone"),
    ),
    pointwise("atanh", "torch.atanh({x}) | 0.5 * torch.log((1 + {x}) / (1 - {x}))", contents="open", roles=roles("alone")),
    pointwise(
        "clamp",
        (
            "torch.clamp({x}, {low}, {high}) | {x}.clamp({low}, {high}) | "
            "torch.clamp({x}, min={low}, max={high}) | {x}.clip({low}, {high})"
        ),
        parameters={"low": (-2.0, -1.0, -0.5, -0.25), "high": (0.25, 0.5, 1.0, 2.0)},
        often=1.5,
    ),
    pointwise(
        "clamp_min",
        "torch.clamp({x}, min={low}) | {x}.clamp(min={low}) | torch.clamp_min({x}, {low})",
        parameters={"low": (-1.0, -0.5, -0.1, 0.1)},
    ),
    pointwise(
        "clamp_max",
        "torch.clamp({x}, max={high}) | {x}.clamp(max={high}) | {x}.clamp_max({high})",
        parameters={"high": (0.1, 0.5, 1.0, 2.0)},
    ),
    pointwise(
        "add_constant",
        "{x} + {constant} | torch.add({x}, {constant}) | {x}.add({constant})",
        parameters={"constant": CONSTANTS},
        often=1.6,
        roles=roles("tail"),
    ),
    pointwise(
        "subtract_constant",
        "{x} - {subtract_value} | torch.sub({x}, {subtract_value})",
        parameters={"subtract_value": CONSTANTS},
        roles=roles("tail"),
    ),
    pointwise(
        "scale",
        "{x} * {scaling_factor} | {scaling_factor} * {x} | torch.mul({x}, {scaling_factor})",
        parameters={"scaling_factor": CONSTANTS},
        keeps=True,
        often=2.0,
        roles=roles("tail"),
    ),
    pointwise(
        "divide_constant",
        "{x} / {divisor} | torch.div({x}, {divisor})",
        parameters={"divisor": (1.5, 2.0, 2.5, 3.0, 4.0, 5.0)},
        keeps=True,
        roles=roles("tail"),
    ),
    pointwise(
        "affine",
        "{x} * {alpha} + {beta} | {alpha} * {x} + {beta}",
        parameters={"alpha": (0.5, 0.8, 1.5, 2.0), "beta": (-0.5, 0.1, 0.5, 1.0)},
    ),
    pointwise(
        "softcap",
        "{cap} * torch.tanh({x} / {cap}) | torch.tanh({x} / {cap}) * {cap}",
        parameters={"cap": (1.0, 2.0, 5.0, 10.0)},
    ),
    pointwise(
        "smooth_abs",
        "torch.sqrt({x} * {x} + {eps}) | torch.sqrt({x} ** 2 + {eps}) | ({x}.square() + {eps}).sqrt()",
        parameters={"eps": (0.01, 0.1, 1.0)},
    ),
    pointwise(
        "polynomial",
        "{a} * {x} * {x} + {b} * {x} | {a} * {x} ** 2 + {b} * {x}",
        parameters={"a": (0.1, 0.25, 0.5), "b": (0.5, 1.5, 2.0)},
    ),
    _parameter("bias_add", "{x} + {@bias}", "bias", "nn.Parameter(torch.randn({bias_shape}))", often=2.0),
    _parameter("bias_subtract", "{x} - {@shift}", "shift", "nn.Parameter(torch.randn({shift_shape}) * 0.5)"),
    _parameter("channel_scale", "{x} * {@scale}", "scale", "nn.Parameter(torch.rand({scale_shape}) + 0.5)"),
    Operator(
        "learned_scalar",
        "elementwise",
        (
            form("{x} * {@gain}", ("gain", "nn.Parameter(torch.tensor({initial}))")),
            form("{@gain} * {x}", ("gain", "nn.Parameter(torch.full((1,), {initial}))")),
        ),
        parameters={"initial": (0.5, 0.8, 1.2, 1.5)},
        keeps=True,
        roles=roles("tail"),
        dtypes=("float32",),
        literal=frozenset({"initial"}),
    ),
    pairwise("add", "{x} + {y} | torch.add({x}, {y})"),
    pairwise("subtract", "{x} - {y} | torch.sub({x}, {y})"),
    pairwise("multiply", "{x} * {y} | torch.mul({x}, {y})"),
    pairwise("divide", "{x} / ({y}.abs() + 1.0) | torch.div({x}, {y}.abs() + 1.0)"),
    pairwise("maximum", "torch.maximum({x}, {y}) | torch.max({x}, {y})"),
    pairwise("minimum", "torch.minimum({x}, {y}) | torch.min({x}, {y})"),
    pairwise("hypot", "torch.hypot({x}, {y}) | torch.sqrt({x} ** 2 + {y} ** 2 + 1e-8)"),
    pairwise("atan2", "torch.atan2({x}, {y})"),
    pairwise("logaddexp", "torch.logaddexp({x}, {y})"),
    pairwise("squared_difference", "({x} - {y}) ** 2 | torch.square({x} - {y}) | ({x} - {y}).pow(2)"),
    pairwise(
        "lerp",
        "torch.lerp({x}, {y}, {weight}) | {x} + {weight} * ({y} - {x}) | (1 - {weight}) * {x} + {weight} * {y}",
        parameters={"weight": (0.1, 0.25, 0.3, 0.7)},
    ),
    pairwise(
        "addcmul",
        "torch.addcmul({x}, {y}, {z}, value={value}) | {x} + {value} * {y} * {z}",
        parameters={"value": (0.5, 1.5, 2.0)},
        others=(Operand("y", lambda s: s.shape), Operand("z", lambda s: s.shape)),
    ),
    pairwise(
        "where",
        "torch.where({y}, {x}, {z})",
        others=(Operand("mask", lambda s: s.shape, "mask"), Operand("other", lambda s: s.shape)),
    ),
    pairwise(
        "masked_fill",
        "{x}.masked_fill({y}, {fill_value}) | torch.masked_fill({x}, {y}, {fill_value})",
        parameters={"fill_value": (0.0, -1.0, 2.0)},
        others=(Operand("mask", lambda s: s.shape, "mask"),),
    ),
    pairwise(
        "add_row_vector",
        "{x} + {y} | torch.add({x}, {y})",
        layouts=BATCHED,
        others=(Operand("offset", lambda s: (s.shape[-1],)),),
    ),
    pairwise(
        "scale_rows",
        "{x} * {y} | torch.mul({x}, {y})",
        layouts=BATCHED,
        others=(Operand("weights", lambda s: (s.shape[0], *(1 for _ in s.shape[1:]))),),
    ),
    pairwise(
        "outer_sum",
        "{x}.unsqueeze(2) + {y}.unsqueeze(1) | {x}[:, :, None] + {y}[:, None, :]",
        layouts=("rows",),
        others=(Operand("other", lambda s: (s.shape[0], s.draw.size("other_features", 16, 128))),),
        law=unchanged,
    ),
)
