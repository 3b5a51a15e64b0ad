"""Activation functions, by name and written out."""

from __future__ import annotations

from functools import partial

import numpy as np

from bottega.tasks.synth.catalogue.elementwise import per_channel, pointwise
from bottega.tasks.synth.operator import BATCHED, Form, Operator, OperatorUse
from bottega.tasks.synth.value import Shape, Table

activation = partial(pointwise, family="activations")


def _sigmoid(t: Table) -> Table:
    return 1 / (1 + np.exp(-t))


def _softplus(t: Table) -> Table:
    return np.logaddexp(t, 0)


def _gelu(t: Table) -> Table:
    result: Table = 0.5 * t * (1 + np.tanh(0.7978845608 * (t + 0.044715 * t**3)))
    return result


def _halves(s: OperatorUse) -> Shape | None:
    axis = s.p["dim"] % s.rank
    if s.shape[axis] % 2 or s.shape[axis] < 4:
        return None
    return tuple(length // 2 if place == axis else length for place, length in enumerate(s.shape))


def _gated(name: str, words: str, calls: tuple[str, ...], often: float = 1.0, weight: float = 6) -> Operator:
    def law(s: OperatorUse) -> Table:
        other = s.table[::-1]
        return s.table * _sigmoid(other) if name == "glu" else 0.6 * s.table * other

    return Operator(
        name,
        "activations",
        tuple(Form(call) for call in calls),
        words,
        BATCHED,
        {"dim": lambda s: 1 if s.x.layout in ("ncl", "nchw", "ncdhw") else -1},
        shape=_halves,
        law=law,
        layout=lambda s: s.x.layout,
        weight=weight,
        often=often,
        literal=frozenset({"dim"}),
    )


ACTIVATIONS = (
    activation(
        "relu",
        ("nn.ReLU() | F.relu({x}) | torch.relu({x}) | {x}.relu() | {x}.clamp(min=0) | torch.clamp({x}, min=0.0)"),
        lambda t, p: np.maximum(t, 0),
        words="ReLU",
        gives="nonnegative",
        attribute="relu",
        often=3.0,
    ),
    activation(
        "relu6",
        "nn.ReLU6() | F.relu6({x}) | torch.clamp({x}, 0, 6)",
        lambda t, p: np.clip(t, 0, 6),
        words="ReLU6",
        gives="nonnegative",
    ),
    activation(
        "leaky_relu",
        (
            "nn.LeakyReLU({negative_slope}) | F.leaky_relu({x}, {negative_slope}) | "
            "F.leaky_relu({x}, negative_slope={negative_slope}) | "
            "torch.where({x} > 0, {x}, {negative_slope} * {x})"
        ),
        lambda t, p: np.where(t > 0, t, p["negative_slope"] * t),
        parameters={"negative_slope": (0.01, 0.05, 0.1, 0.2)},
        words="leaky ReLU",
        often=1.5,
    ),
    activation(
        "elu",
        "nn.ELU({alpha}) | nn.ELU(alpha={alpha}) | F.elu({x}, alpha={alpha})",
        lambda t, p: np.where(t > 0, t, p["alpha"] * np.expm1(t)),
        parameters={"alpha": (0.5, 1.0, 1.5)},
        words="ELU",
        weight=5,
    ),
    activation(
        "selu",
        "nn.SELU() | F.selu({x}) | torch.selu({x})",
        lambda t, p: 1.0507 * np.where(t > 0, t, 1.6733 * np.expm1(t)),
        words="SELU",
        weight=5,
    ),
    activation(
        "celu",
        "nn.CELU({alpha}) | F.celu({x}, alpha={alpha})",
        lambda t, p: np.where(t > 0, t, p["alpha"] * np.expm1(t / p["alpha"])),
        parameters={"alpha": (0.5, 1.5, 2.0)},
        words="CELU",
        weight=5,
        often=0.6,
    ),
    activation(
        "gelu",
        (
            "nn.GELU() | F.gelu({x}) | 0.5 * {x} * (1.0 + torch.erf({x} / math.sqrt(2.0))) | "
            "0.5 * {x} * (1 + torch.erf({x} * 0.7071067811865476))"
        ),
        lambda t, p: _gelu(t),
        words="GELU",
        weight=7,
        often=2.0,
    ),
    activation(
        "gelu_tanh",
        (
            'nn.GELU(approximate="tanh") | F.gelu({x}, approximate="tanh") | '
            "0.5 * {x} * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * ({x} + 0.044715 * {x} ** 3))) | "
            "0.5 * {x} * (1 + torch.tanh(0.7978845608 * ({x} + 0.044715 * torch.pow({x}, 3))))"
        ),
        lambda t, p: _gelu(t),
        words="GELU (tanh approximation)",
        weight=8,
    ),
    activation(
        "quick_gelu",
        "{x} * torch.sigmoid(1.702 * {x})",
        lambda t, p: t * _sigmoid(1.702 * t),
        words="quick GELU",
        weight=6,
        often=0.6,
    ),
    activation(
        "silu",
        (
            "nn.SiLU() | F.silu({x}) | {x} * torch.sigmoid({x}) | {x} * {x}.sigmoid() | "
            "torch.sigmoid({x}) * {x} | {x} / (1 + torch.exp(-{x}))"
        ),
        lambda t, p: t * _sigmoid(t),
        words="SiLU (Swish)",
        weight=5,
        often=2.5,
    ),
    activation(
        "mish",
        "nn.Mish() | F.mish({x}) | {x} * torch.tanh(F.softplus({x})) | torch.tanh(F.softplus({x})) * {x}",
        lambda t, p: t * np.tanh(_softplus(t)),
        words="Mish",
        weight=9,
        often=1.5,
    ),
    activation(
        "sigmoid",
        "nn.Sigmoid() | torch.sigmoid({x}) | {x}.sigmoid() | F.sigmoid({x}) | 1.0 / (1.0 + torch.exp(-{x}))",
        lambda t, p: _sigmoid(t),
        words="sigmoid",
        gives="unit",
        weight=5,
        often=2.0,
    ),
    activation(
        "tanh",
        "nn.Tanh() | torch.tanh({x}) | {x}.tanh() | F.tanh({x})",
        lambda t, p: np.tanh(t),
        words="tanh",
        weight=5,
        often=2.0,
    ),
    activation(
        "softplus",
        "nn.Softplus() | F.softplus({x}) | torch.log1p(torch.exp({x})) | torch.log(1 + torch.exp({x}))",
        lambda t, p: _softplus(t),
        words="softplus",
        gives="nonnegative",
        weight=6,
        often=1.2,
    ),
    activation(
        "softplus_beta",
        "nn.Softplus(beta={beta}) | F.softplus({x}, beta={beta})",
        lambda t, p: _softplus(t * p["beta"]) / p["beta"],
        parameters={"beta": (0.5, 2.0, 3.0)},
        words="softplus with a slope",
        gives="nonnegative",
        weight=7,
        often=0.5,
    ),
    activation(
        "softsign",
        "nn.Softsign() | F.softsign({x}) | {x} / (1 + torch.abs({x})) | {x} / ({x}.abs() + 1)",
        lambda t, p: t / (1 + np.abs(t)),
        words="softsign",
        weight=2,
    ),
    activation(
        "hardswish",
        ("nn.Hardswish() | F.hardswish({x}) | {x} * torch.clamp({x} + 3, 0, 6) / 6 | {x} * F.relu6({x} + 3) / 6"),
        lambda t, p: t * np.clip(t + 3, 0, 6) / 6,
        words="HardSwish",
        often=1.2,
    ),
    activation(
        "hardsigmoid",
        "nn.Hardsigmoid() | F.hardsigmoid({x}) | torch.clamp({x} / 6 + 0.5, 0, 1) | F.relu6({x} + 3) / 6",
        lambda t, p: np.clip(t / 6 + 0.5, 0, 1),
        words="hard sigmoid",
        gives="unit",
    ),
    activation(
        "hardtanh",
        (
            "nn.Hardtanh({low}, {high}) | F.hardtanh({x}, min_val={low}, max_val={high}) | "
            "nn.Hardtanh(min_val={low}, max_val={high})"
        ),
        lambda t, p: np.clip(t, p["low"], p["high"]),
        parameters={"low": (-2.0, -1.0, -0.5), "high": (0.5, 1.0, 2.0)},
        words="HardTanh",
    ),
    activation(
        "hardshrink",
        ("nn.Hardshrink({lambd}) | F.hardshrink({x}, {lambd}) | torch.where({x}.abs() > {lambd}, {x}, torch.zeros_like({x}))"),
        lambda t, p: np.where(np.abs(t) > p["lambd"], t, 0),
        parameters={"lambd": (0.1, 0.2, 0.5)},
        words="hard shrinkage",
        often=0.5,
    ),
    activation(
        "softshrink",
        "nn.Softshrink({lambd}) | F.softshrink({x}, {lambd})",
        lambda t, p: np.sign(t) * np.maximum(np.abs(t) - p["lambd"], 0),
        parameters={"lambd": (0.1, 0.2, 0.5)},
        words="soft shrinkage",
        often=0.5,
    ),
    activation(
        "tanhshrink",
        "nn.Tanhshrink() | F.tanhshrink({x}) | {x} - torch.tanh({x})",
        lambda t, p: t - np.tanh(t),
        words="tanh shrinkage",
        weight=6,
        often=0.4,
    ),
    activation(
        "logsigmoid",
        "nn.LogSigmoid() | F.logsigmoid({x}) | -F.softplus(-{x})",
        lambda t, p: -_softplus(-t),
        words="log-sigmoid",
        weight=6,
        often=0.8,
    ),
    activation(
        "threshold",
        "nn.Threshold({threshold}, {value}) | F.threshold({x}, {threshold}, {value})",
        lambda t, p: np.where(t > p["threshold"], t, p["value"]),
        parameters={"threshold": (-0.5, 0.1, 0.2), "value": (-1.0, 0.0, 0.5)},
        words="threshold",
        often=0.4,
    ),
    activation(
        "squared_relu",
        ("torch.relu({x}) ** 2 | F.relu({x}).square() | torch.square(F.relu({x})) | F.relu({x}) * F.relu({x})"),
        lambda t, p: np.maximum(t, 0) ** 2,
        words="squared ReLU",
        gives="nonnegative",
        weight=2,
        often=0.8,
    ),
    activation(
        "swish_beta",
        "{x} * torch.sigmoid({beta} * {x})",
        lambda t, p: t * _sigmoid(p["beta"] * t),
        parameters={"beta": (0.5, 1.5, 2.0)},
        words="Swish with a slope",
        weight=6,
        often=0.6,
    ),
    activation(
        "tanh_exp",
        "{x} * torch.tanh(torch.exp({x}))",
        lambda t, p: t * np.tanh(np.exp(t)),
        words="TanhExp",
        weight=9,
        often=0.3,
    ),
    activation(
        "bent_identity",
        "(torch.sqrt({x} * {x} + 1) - 1) / 2 + {x} | ((({x} ** 2) + 1).sqrt() - 1) * 0.5 + {x}",
        lambda t, p: (np.sqrt(t * t + 1) - 1) / 2 + t,
        words="bent identity",
        weight=5,
        often=0.4,
    ),
    Operator(
        "prelu",
        "activations",
        (
            Form("{@prelu}({x})", (("prelu", "nn.PReLU()"),)),
            Form("{@prelu}({x})", (("prelu", "nn.PReLU({channels})"),)),
            Form("F.prelu({x}, {@slope})", (("slope", "nn.Parameter(torch.full(({channels},), 0.25))"),)),
        ),
        "PReLU",
        ("nchw", "rows", "ncl", "ncdhw"),
        {"channels": lambda s: s.shape[1]},
        law=lambda s: np.where(s.table > 0, s.table, 0.25 * s.table),
        weight=2,
    ),
    Operator(
        "channel_swish",
        "activations",
        (Form("{x} * torch.sigmoid({@beta} * {x})", (("beta", "nn.Parameter(torch.ones({beta_shape}))"),)),),
        "Swish with a learned slope",
        BATCHED,
        {"beta_shape": per_channel},
        law=lambda s: s.table * _sigmoid(s.table),
        weight=6,
        often=0.4,
    ),
    _gated(
        "glu",
        "gated linear unit",
        ("F.glu({x}, dim={dim})", "{=a}, {=b} = {x}.chunk(2, dim={dim})\n{=a} * torch.sigmoid({=b})"),
        often=1.2,
    ),
    _gated(
        "swiglu",
        "SwiGLU",
        (
            "{=a}, {=b} = {x}.chunk(2, dim={dim})\nF.silu({=a}) * {=b}",
            "{=gate}, {=value} = torch.chunk({x}, 2, dim={dim})\n{=gate} * torch.sigmoid({=gate}) * {=value}",
        ),
    ),
    _gated(
        "geglu",
        "GEGLU",
        (
            "{=value}, {=gate} = {x}.chunk(2, dim={dim})\n{=value} * F.gelu({=gate})",
            "{=a}, {=b} = torch.chunk({x}, 2, dim={dim})\nF.gelu({=a}) * {=b}",
        ),
    ),
    _gated("reglu", "ReGLU", ("{=a}, {=b} = torch.chunk({x}, 2, dim={dim})\ntorch.relu({=a}) * {=b}",), often=0.5),
)
