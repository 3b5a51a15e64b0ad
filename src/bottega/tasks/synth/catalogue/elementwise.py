"""Operators that treat every element alone: arithmetic with constants, parameters and other tensors, and plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bottega.tasks.synth.operator import BATCHED, Choice, Form, Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Shape, Table

Function = Callable[[Table, dict[str, Any]], Table]

CONSTANTS = (0.1, 0.25, 0.3, 0.5, 0.7, 1.5, 1.7, 2.0, 2.5, 3.0)


def pointwise(
    name: str,
    text: str,
    function: Function,
    *,
    family: str = "elementwise",
    parameters: Mapping[str, Choice] | None = None,
    attribute: str = "act",
    **more: Any,
) -> Operator:
    def law(s: OperatorUse) -> Table:
        with np.errstate(all="ignore"):
            return function(s.table, s.p)

    return Operator(name, family, forms(text, attribute), law=law, parameters=parameters or {}, **more)


def pairwise(
    name: str, text: str, function: Callable[[Table, Table], Table], contents: str = "normal", **more: Any
) -> Operator:
    def law(s: OperatorUse) -> Table:
        with np.errstate(all="ignore"):
            return function(s.table, s.others[0].typical)

    return Operator(
        name,
        "elementwise",
        forms(text),
        law=law,
        others=(Operand("y", lambda s: s.shape, contents),),
        roles=roles("alone join"),
        **more,
    )


def per_channel(s: OperatorUse) -> Shape:
    """The shape of a parameter with one number for each channel or feature."""
    if s.x.layout in ("ncl", "nchw", "ncdhw"):
        return (s.shape[1], *(1 for _ in s.shape[2:]))
    return (s.shape[-1],)


def _parameter(
    name: str, call: str, attribute: str, make: str, function: Callable[[Table, Table], Table], words: str, **more: Any
) -> Operator:
    def law(s: OperatorUse) -> Table:
        own = np.array(
            [s.draw.rng.gauss(1.0 if "rand(" in make or "ones" in make else 0.0, 0.3) for _ in range(s.table.shape[1])]
        )
        return function(s.table, own)

    return Operator(
        name,
        "elementwise",
        (Form(call, ((attribute, make),)),),
        words,
        BATCHED,
        {f"{attribute}_shape": per_channel},
        law=law,
        roles=roles("tail alone"),
        **more,
    )


ELEMENTWISE = (
    pointwise("exp", "torch.exp({x}) | {x}.exp()", lambda t, p: np.exp(t), words="exponential", gives="positive", weight=4),
    pointwise(
        "exp2",
        "torch.exp2({x}) | 2.0 ** {x}",
        lambda t, p: np.exp2(t),
        words="power of two",
        gives="positive",
        weight=4,
        often=0.5,
    ),
    pointwise(
        "expm1",
        "torch.expm1({x}) | {x}.expm1() | torch.exp({x}) - 1",
        lambda t, p: np.expm1(t),
        words="exponential minus one",
        weight=4,
        often=0.5,
    ),
    pointwise(
        "log", "torch.log({x}) | {x}.log()", lambda t, p: np.log(t), words="natural logarithm", takes="positive", weight=4
    ),
    pointwise(
        "log2",
        "torch.log2({x}) | {x}.log2()",
        lambda t, p: np.log2(t),
        words="binary logarithm",
        takes="positive",
        weight=4,
        often=0.5,
    ),
    pointwise(
        "log1p",
        "torch.log1p({x}) | {x}.log1p() | torch.log(1 + {x})",
        lambda t, p: np.log1p(t),
        takes="nonnegative",
        gives="nonnegative",
        words="log(1 + x)",
        weight=4,
    ),
    pointwise(
        "log_abs",
        "torch.log1p(torch.abs({x})) | torch.log({x}.abs() + 1.0) | torch.log1p({x}.abs())",
        lambda t, p: np.log1p(np.abs(t)),
        gives="nonnegative",
        words="log of the magnitude",
        weight=5,
    ),
    pointwise(
        "signed_log",
        "torch.sign({x}) * torch.log1p(torch.abs({x}))",
        lambda t, p: np.sign(t) * np.log1p(np.abs(t)),
        words="signed logarithm",
        weight=7,
        often=0.5,
    ),
    pointwise(
        "sqrt",
        "torch.sqrt({x}) | {x}.sqrt()",
        lambda t, p: np.sqrt(t),
        words="square root",
        takes="nonnegative",
        gives="nonnegative",
        weight=2,
    ),
    pointwise(
        "signed_sqrt",
        "torch.sign({x}) * torch.sqrt(torch.abs({x}) + 1e-6) | {x}.sign() * ({x}.abs() + 1e-4).sqrt()",
        lambda t, p: np.sign(t) * np.sqrt(np.abs(t)),
        words="signed square root",
        weight=5,
        often=0.6,
    ),
    pointwise(
        "rsqrt",
        "torch.rsqrt({x}) | {x}.rsqrt() | 1.0 / torch.sqrt({x})",
        lambda t, p: t**-0.5,
        words="reciprocal square root",
        takes="positive",
        gives="positive",
        weight=2,
    ),
    pointwise(
        "reciprocal",
        "torch.reciprocal({x}) | 1.0 / {x} | {x}.reciprocal()",
        lambda t, p: 1 / t,
        words="reciprocal",
        takes="positive",
        gives="positive",
    ),
    pointwise(
        "square",
        "torch.square({x}) | {x} ** 2 | {x}.pow(2) | {x} * {x} | torch.pow({x}, 2)",
        lambda t, p: t**2,
        words="square",
        gives="nonnegative",
    ),
    pointwise("cube", "{x} ** 3 | {x}.pow(3) | torch.pow({x}, 3)", lambda t, p: t**3, words="cube", often=0.5),
    pointwise(
        "power",
        "torch.pow({x}, {exponent}) | {x} ** {exponent} | {x}.pow({exponent})",
        lambda t, p: t ** p["exponent"],
        parameters={"exponent": (0.3, 0.5, 0.75, 1.5, 2.5)},
        takes="positive",
        gives="positive",
        words="power",
        weight=6,
        often=0.6,
    ),
    pointwise("abs", "torch.abs({x}) | {x}.abs()", lambda t, p: np.abs(t), words="absolute value", gives="nonnegative"),
    pointwise("negate", "-{x} | torch.neg({x}) | {x}.neg()", lambda t, p: -t, words="negation", often=0.3),
    pointwise("sin", "torch.sin({x}) | {x}.sin()", lambda t, p: np.sin(t), words="sine", weight=5),
    pointwise("cos", "torch.cos({x}) | {x}.cos()", lambda t, p: np.cos(t), words="cosine", weight=5),
    pointwise("atan", "torch.atan({x}) | {x}.atan()", lambda t, p: np.arctan(t), words="arc tangent", weight=5, often=0.5),
    pointwise(
        "asinh",
        "torch.asinh({x}) | {x}.asinh()",
        lambda t, p: np.arcsinh(t),
        words="inverse hyperbolic sine",
        weight=6,
        often=0.4,
    ),
    pointwise("sinh", "torch.sinh({x}) | {x}.sinh()", lambda t, p: np.sinh(t), words="hyperbolic sine", weight=5, often=0.3),
    pointwise("erf", "torch.erf({x}) | {x}.erf()", lambda t, p: np.tanh(1.2 * t), words="error function", weight=5, often=0.6),
    pointwise(
        "snake",
        "{x} + torch.sin({frequency} * {x}) ** 2 / {frequency}",
        lambda t, p: t + np.sin(p["frequency"] * t) ** 2 / p["frequency"],
        parameters={"frequency": (0.5, 2.0, 3.0)},
        words="snake activation",
        weight=8,
        often=0.5,
    ),
    pointwise(
        "gaussian",
        "torch.exp(-{x} ** 2 / 2) | torch.exp(-0.5 * {x} * {x}) | ({x}.square() * -0.5).exp()",
        lambda t, p: np.exp(-t * t / 2),
        words="Gaussian bump",
        gives="unit",
        weight=6,
        often=0.6,
    ),
    pointwise(
        "logit",
        "torch.logit({x}) | {x}.logit() | torch.log({x} / (1 - {x}))",
        lambda t, p: np.log(t / (1 - t)),
        contents="inner",
        takes="unit",
        words="logit",
        weight=6,
        often=0.3,
        roles=roles("alone"),
    ),
    pointwise(
        "atanh",
        "torch.atanh({x}) | 0.5 * torch.log((1 + {x}) / (1 - {x}))",
        lambda t, p: np.arctanh(t),
        contents="open",
        words="inverse hyperbolic tangent",
        weight=6,
        often=0.3,
        roles=roles("alone"),
    ),
    pointwise(
        "clamp",
        (
            "torch.clamp({x}, {low}, {high}) | {x}.clamp({low}, {high}) | "
            "torch.clamp({x}, min={low}, max={high}) | {x}.clip({low}, {high})"
        ),
        lambda t, p: np.clip(t, p["low"], p["high"]),
        parameters={"low": (-2.0, -1.0, -0.5, -0.25), "high": (0.25, 0.5, 1.0, 2.0)},
        words="clamp to a range",
        often=1.5,
    ),
    pointwise(
        "clamp_min",
        "torch.clamp({x}, min={low}) | {x}.clamp(min={low}) | torch.clamp_min({x}, {low})",
        lambda t, p: np.maximum(t, p["low"]),
        parameters={"low": (-1.0, -0.5, -0.1, 0.1)},
        words="lower clamp",
    ),
    pointwise(
        "clamp_max",
        "torch.clamp({x}, max={high}) | {x}.clamp(max={high}) | {x}.clamp_max({high})",
        lambda t, p: np.minimum(t, p["high"]),
        parameters={"high": (0.1, 0.5, 1.0, 2.0)},
        words="upper clamp",
    ),
    pointwise(
        "add_constant",
        "{x} + {constant} | torch.add({x}, {constant}) | {x}.add({constant})",
        lambda t, p: t + p["constant"],
        parameters={"constant": CONSTANTS},
        words="addition of a constant",
        gives="any",
        often=1.6,
        roles=roles("tail"),
    ),
    pointwise(
        "subtract_constant",
        "{x} - {subtract_value} | torch.sub({x}, {subtract_value})",
        lambda t, p: t - p["subtract_value"],
        parameters={"subtract_value": CONSTANTS},
        words="subtraction of a constant",
        often=1.2,
        roles=roles("tail"),
    ),
    pointwise(
        "scale",
        "{x} * {scaling_factor} | {scaling_factor} * {x} | torch.mul({x}, {scaling_factor})",
        lambda t, p: t * p["scaling_factor"],
        parameters={"scaling_factor": CONSTANTS},
        words="scaling",
        gives="same",
        keeps=True,
        often=2.0,
        roles=roles("tail"),
    ),
    pointwise(
        "divide_constant",
        "{x} / {divisor} | torch.div({x}, {divisor})",
        lambda t, p: t / p["divisor"],
        parameters={"divisor": (1.5, 2.0, 2.5, 3.0, 4.0, 5.0)},
        words="division by a constant",
        gives="same",
        keeps=True,
        often=1.2,
        roles=roles("tail"),
    ),
    pointwise(
        "affine",
        "{x} * {alpha} + {beta} | {alpha} * {x} + {beta}",
        lambda t, p: t * p["alpha"] + p["beta"],
        parameters={"alpha": (0.5, 0.8, 1.5, 2.0), "beta": (-0.5, 0.1, 0.5, 1.0)},
        words="scale and shift",
        weight=2,
        often=0.8,
    ),
    pointwise(
        "softcap",
        "{cap} * torch.tanh({x} / {cap}) | torch.tanh({x} / {cap}) * {cap}",
        lambda t, p: np.tanh(t / p["cap"]) * p["cap"],
        parameters={"cap": (1.0, 2.0, 5.0, 10.0)},
        words="soft cap",
        weight=7,
        often=0.7,
    ),
    pointwise(
        "smooth_abs",
        "torch.sqrt({x} * {x} + {eps}) | torch.sqrt({x} ** 2 + {eps}) | ({x}.square() + {eps}).sqrt()",
        lambda t, p: np.sqrt(t * t + p["eps"]),
        parameters={"eps": (1e-2, 0.1, 1.0)},
        words="smooth absolute value",
        gives="nonnegative",
        weight=4,
        often=0.5,
    ),
    pointwise(
        "polynomial",
        "{a} * {x} * {x} + {b} * {x} | {a} * {x} ** 2 + {b} * {x}",
        lambda t, p: p["a"] * t * t + p["b"] * t,
        parameters={"a": (0.1, 0.25, 0.5), "b": (0.5, 1.5, 2.0)},
        words="polynomial",
        weight=4,
        often=0.5,
    ),
    _parameter(
        "bias_add",
        "{x} + {@bias}",
        "bias",
        "nn.Parameter(torch.randn({bias_shape}))",
        lambda t, own: t + own,
        "bias addition",
        often=2.0,
    ),
    _parameter(
        "bias_subtract",
        "{x} - {@shift}",
        "shift",
        "nn.Parameter(torch.randn({shift_shape}) * 0.5)",
        lambda t, own: t - own,
        "subtraction of a learned shift",
        often=0.5,
    ),
    _parameter(
        "channel_scale",
        "{x} * {@scale}",
        "scale",
        "nn.Parameter(torch.rand({scale_shape}) + 0.5)",
        lambda t, own: t * own,
        "learned scale for each channel",
        often=1.2,
    ),
    Operator(
        "learned_scalar",
        "elementwise",
        (
            form("{x} * {@gain}", ("gain", "nn.Parameter(torch.tensor({initial}))")),
            form("{@gain} * {x}", ("gain", "nn.Parameter(torch.full((1,), {initial}))")),
        ),
        "learned scalar gain",
        parameters={"initial": (0.5, 0.8, 1.2, 1.5)},
        law=lambda s: s.table * s.p["initial"],
        gives="any",
        keeps=True,
        often=0.5,
        roles=roles("tail"),
        dtypes=("float32",),
        literal=frozenset({"initial"}),
    ),
    pairwise("add", "{x} + {y} | torch.add({x}, {y})", lambda a, b: a + b, words="addition"),
    pairwise("subtract", "{x} - {y} | torch.sub({x}, {y})", lambda a, b: a - b, words="subtraction", often=0.6),
    pairwise("multiply", "{x} * {y} | torch.mul({x}, {y})", lambda a, b: a * b, words="product"),
    pairwise(
        "divide",
        "{x} / ({y}.abs() + 1.0) | torch.div({x}, {y}.abs() + 1.0)",
        lambda a, b: a / (np.abs(b) + 1),
        words="guarded division",
        weight=3,
        often=0.5,
    ),
    pairwise("maximum", "torch.maximum({x}, {y}) | torch.max({x}, {y})", np.maximum, words="elementwise maximum", often=0.7),
    pairwise("minimum", "torch.minimum({x}, {y}) | torch.min({x}, {y})", np.minimum, words="elementwise minimum", often=0.5),
    pairwise(
        "hypot",
        "torch.hypot({x}, {y}) | torch.sqrt({x} ** 2 + {y} ** 2 + 1e-8)",
        np.hypot,
        words="hypotenuse",
        gives="nonnegative",
        weight=4,
        often=0.4,
    ),
    pairwise("atan2", "torch.atan2({x}, {y})", np.arctan2, words="angle", weight=8, often=0.3),
    pairwise("logaddexp", "torch.logaddexp({x}, {y})", np.logaddexp, words="log of summed exponentials", weight=8, often=0.4),
    pairwise(
        "squared_difference",
        "({x} - {y}) ** 2 | torch.square({x} - {y}) | ({x} - {y}).pow(2)",
        lambda a, b: (a - b) ** 2,
        words="squared difference",
        gives="nonnegative",
        weight=2,
        often=0.5,
    ),
    Operator(
        "lerp",
        "elementwise",
        forms("torch.lerp({x}, {y}, {weight}) | {x} + {weight} * ({y} - {x}) | (1 - {weight}) * {x} + {weight} * {y}"),
        "linear interpolation",
        parameters={"weight": (0.1, 0.25, 0.3, 0.7)},
        others=(Operand("y", lambda s: s.shape),),
        law=lambda s: s.table + s.p["weight"] * (s.others[0].typical - s.table),
        weight=3,
        roles=roles("alone join"),
        often=0.6,
    ),
    Operator(
        "addcmul",
        "elementwise",
        forms("torch.addcmul({x}, {y}, {z}, value={value}) | {x} + {value} * {y} * {z}"),
        "fused multiply and add",
        parameters={"value": (0.5, 1.5, 2.0)},
        others=(Operand("y", lambda s: s.shape), Operand("z", lambda s: s.shape)),
        law=lambda s: s.table + s.p["value"] * s.others[0].typical * s.others[1].typical,
        weight=3,
        roles=roles("alone"),
        often=0.6,
    ),
    Operator(
        "where",
        "elementwise",
        forms("torch.where({y}, {x}, {z})"),
        "selection by a mask",
        others=(Operand("mask", lambda s: s.shape, "mask"), Operand("other", lambda s: s.shape)),
        law=lambda s: np.where(s.others[0].typical > 0, s.table, s.others[1].typical),
        roles=roles("alone"),
        often=0.6,
    ),
    Operator(
        "masked_fill",
        "elementwise",
        forms("{x}.masked_fill({y}, {fill_value}) | torch.masked_fill({x}, {y}, {fill_value})"),
        "masked fill",
        parameters={"fill_value": (0.0, -1.0, 2.0)},
        others=(Operand("mask", lambda s: s.shape, "mask"),),
        law=lambda s: np.where(s.others[0].typical > 0, s.p["fill_value"], s.table),
        roles=roles("alone"),
        often=0.6,
    ),
    Operator(
        "add_row_vector",
        "elementwise",
        forms("{x} + {y} | torch.add({x}, {y})"),
        "broadcast addition of a vector",
        BATCHED,
        others=(Operand("offset", lambda s: (s.shape[-1],)),),
        law=lambda s: s.table + s.others[0].typical,
        roles=roles("alone"),
        often=0.6,
    ),
    Operator(
        "scale_rows",
        "elementwise",
        forms("{x} * {y} | torch.mul({x}, {y})"),
        "broadcast scaling of rows",
        BATCHED,
        others=(Operand("weights", lambda s: (s.shape[0], *(1 for _ in s.shape[1:])), "normal"),),
        law=lambda s: s.table * s.others[0].typical,
        roles=roles("alone"),
        often=0.6,
    ),
    Operator(
        "outer_sum",
        "elementwise",
        forms("{x}.unsqueeze(2) + {y}.unsqueeze(1) | {x}[:, :, None] + {y}[:, None, :]"),
        "all pairwise sums",
        ("rows",),
        others=(Operand("other", lambda s: (s.shape[0], s.draw.size("other_features", 16, 128))),),
        shape=lambda s: (*s.shape, s.others[0].shape[1]),
        layout="sequence",
        law=lambda s: s.table + s.others[0].typical,
        roles=roles("alone"),
        often=0.4,
    ),
)
