"""Activation functions, by name and written out."""

from __future__ import annotations

from functools import partial

import numpy as np

from bottega.tasks.synth.catalogue.elementwise import per_channel, pointwise
from bottega.tasks.synth.operator import BATCHED, Form, Operator, OperatorUse
from bottega.tasks.synth.value import Table

activation = partial(pointwise, family="activations")


def _gated(name: str, *calls: str) -> Operator:
    """Of two halves, one opens and shuts the other."""

    def law(s: OperatorUse) -> Table:
        result: Table = 0.6 * s.table / (1 + np.exp(-s.table[::-1]))
        return result

    return Operator(
        name,
        "activations",
        tuple(Form(call) for call in calls),
        BATCHED,
        {"dim": lambda s: 1 if s.x.layout in ("ncl", "nchw", "ncdhw") else -1},
        when=lambda s: s.shape[s.p["dim"]] >= 4,
        law=law,
        literal=frozenset({"dim"}),
    )


ACTIVATIONS = (
    activation(
        "relu",
        ("nn.ReLU() | F.relu({x}) | torch.relu({x}) | {x}.relu() | {x}.clamp(min=0) | torch.clamp({x}, min=0.0)"),
        often=3.0,
    ),
    activation("relu6", "nn.ReLU6() | F.relu6({x}) | torch.clamp({x}, 0, 6)"),
    activation(
        "leaky_relu",
        (
            "nn.LeakyReLU({negative_slope}) | F.leaky_relu({x}, {negative_slope}) | "
            "F.leaky_relu({x}, negative_slope={negative_slope}) | "
            "torch.where({x} > 0, {x}, {negative_slope} * {x})"
        ),
        parameters={"negative_slope": (0.01, 0.05, 0.1, 0.2)},
        often=1.5,
    ),
    activation(
        "elu", "nn.ELU({alpha}) | nn.ELU(alpha={alpha}) | F.elu({x}, alpha={alpha})", parameters={"alpha": (0.5, 1.0, 1.5)}
    ),
    activation("selu", "nn.SELU() | F.selu({x}) | torch.selu({x})"),
    activation("celu", "nn.CELU({alpha}) | F.celu({x}, alpha={alpha})", parameters={"alpha": (0.5, 1.5, 2.0)}),
    activation(
        "gelu",
        (
            "nn.GELU() | F.gelu({x}) | 0.5 * {x} * (1.0 + torch.erf({x} / math.sqrt(2.0))) | "
            "0.5 * {x} * (1 + torch.erf({x} * 0.7071067811865476))"
        ),
        often=2.0,
    ),
    activation(
        "gelu_tanh",
        (
            'nn.GELU(approximate="tanh") | F.gelu({x}, approximate="tanh") | '
            "0.5 * {x} * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * ({x} + 0.044715 * {x} ** 3))) | "
            "0.5 * {x} * (1 + torch.tanh(0.7978845608 * ({x} + 0.044715 * torch.pow({x}, 3))))"
        ),
    ),
    activation("quick_gelu", "{x} * torch.sigmoid(1.702 * {x})"),
    activation(
        "silu",
        (
            "nn.SiLU() | F.silu({x}) | {x} * torch.sigmoid({x}) | {x} * {x}.sigmoid() | "
            "torch.sigmoid({x}) * {x} | {x} / (1 + torch.exp(-{x}))"
        ),
        often=2.5,
    ),
    activation(
        "mish", "nn.Mish() | F.mish({x}) | {x} * torch.tanh(F.softplus({x})) | torch.tanh(F.softplus({x})) * {x}", often=1.5
    ),
    activation(
        "sigmoid",
        "nn.Sigmoid() | torch.sigmoid({x}) | {x}.sigmoid() | F.sigmoid({x}) | 1.0 / (1.0 + torch.exp(-{x}))",
        often=2.0,
    ),
    activation("tanh", "nn.Tanh() | torch.tanh({x}) | {x}.tanh() | F.tanh({x})", often=2.0),
    activation("softplus", "nn.Softplus() | F.softplus({x}) | torch.log1p(torch.exp({x})) | torch.log(1 + torch.exp({x}))"),
    activation(
        "softplus_beta", "nn.Softplus(beta={beta}) | F.softplus({x}, beta={beta})", parameters={"beta": (0.5, 2.0, 3.0)}
    ),
    activation("softsign", "nn.Softsign() | F.softsign({x}) | {x} / (1 + torch.abs({x})) | {x} / ({x}.abs() + 1)"),
    activation(
        "hardswish", ("nn.Hardswish() | F.hardswish({x}) | {x} * torch.clamp({x} + 3, 0, 6) / 6 | {x} * F.relu6({x} + 3) / 6")
    ),
    activation(
        "hardsigmoid", "nn.Hardsigmoid() | F.hardsigmoid({x}) | torch.clamp({x} / 6 + 0.5, 0, 1) | F.relu6({x} + 3) / 6"
    ),
    activation(
        "hardtanh",
        (
            "nn.Hardtanh({low}, {high}) | F.hardtanh({x}, min_val={low}, max_val={high}) | "
            "nn.Hardtanh(min_val={low}, max_val={high})"
        ),
        parameters={"low": (-2.0, -1.0, -0.5), "high": (0.5, 1.0, 2.0)},
    ),
    activation(
        "hardshrink",
        ("nn.Hardshrink({lambd}) | F.hardshrink({x}, {lambd}) | torch.where({x}.abs() > {lambd}, {x}, torch.zeros_like({x}))"),
        parameters={"lambd": (0.1, 0.2, 0.5)},
    ),
    activation("softshrink", "nn.Softshrink({lambd}) | F.softshrink({x}, {lambd})", parameters={"lambd": (0.1, 0.2, 0.5)}),
    activation("tanhshrink", "nn.Tanhshrink() | F.tanhshrink({x}) | {x} - torch.tanh({x})"),
    activation("logsigmoid", "nn.LogSigmoid() | F.logsigmoid({x}) | -F.softplus(-{x})"),
    activation(
        "threshold",
        "nn.Threshold({threshold}, {value}) | F.threshold({x}, {threshold}, {value})",
        parameters={"threshold": (-0.5, 0.1, 0.2), "value": (-1.0, 0.0, 0.5)},
    ),
    activation(
        "squared_relu", "torch.relu({x}) ** 2 | F.relu({x}).square() | torch.square(F.relu({x})) | F.relu({x}) * F.relu({x})"
    ),
    activation("swish_beta", "{x} * torch.sigmoid({beta} * {x})", parameters={"beta": (0.5, 1.5, 2.0)}),
    activation("tanh_exp", "{x} * torch.tanh(torch.exp({x}))"),
    activation("bent_identity", "(torch.sqrt({x} * {x} + 1) - 1) / 2 + {x} | ((({x} ** 2) + 1).sqrt() - 1) * 0.5 + {x}"),
    Operator(
        "prelu",
        "activations",
        (
            Form("{@prelu}({x})", (("prelu", "nn.PReLU()"),)),
            Form("{@prelu}({x})", (("prelu", "nn.PReLU({channels})"),)),
            Form("F.prelu({x}, {@slope})", (("slope", "nn.Parameter(torch.full(({channels},), 0.25))"),)),
        ),
        ("nchw", "rows", "ncl", "ncdhw"),
        {"channels": lambda s: s.shape[1]},
    ),
    Operator(
        "channel_swish",
        "activations",
        (Form("{x} * torch.sigmoid({@beta} * {x})", (("beta", "nn.Parameter(torch.ones({beta_shape}))"),)),),
        BATCHED,
        {"beta_shape": per_channel},
    ),
    _gated("glu", "F.glu({x}, dim={dim})", "{=a}, {=b} = {x}.chunk(2, dim={dim})\n{=a} * torch.sigmoid({=b})"),
    _gated(
        "swiglu",
        "{=a}, {=b} = {x}.chunk(2, dim={dim})\nF.silu({=a}) * {=b}",
        "{=gate}, {=value} = torch.chunk({x}, 2, dim={dim})\n{=gate} * torch.sigmoid({=gate}) * {=value}",
    ),
    _gated(
        "geglu",
        "{=value}, {=gate} = {x}.chunk(2, dim={dim})\n{=value} * F.gelu({=gate})",
        "{=a}, {=b} = torch.chunk({x}, 2, dim={dim})\nF.gelu({=a}) * {=b}",
    ),
    _gated("reglu", "{=a}, {=b} = torch.chunk({x}, 2, dim={dim})\ntorch.relu({=a}) * {=b}"),
)
