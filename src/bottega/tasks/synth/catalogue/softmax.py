"""Softmax and its kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from bottega.tasks.synth.operator import Operand, Operator, OperatorUse, forms, roles
from bottega.tasks.synth.value import Table

LAYOUTS = ("rows", "matrix", "sequence", "nchw", "heads")
SHARES = frozenset({"shares"})


def axis(s: OperatorUse) -> int:
    if s.x.layout in ("rows", "matrix"):
        return s.draw.pick((1, -1, -1))
    if s.x.layout == "nchw":
        return s.draw.pick((1, 1, -1))
    return s.draw.pick((-1, -1, -1, 1, s.rank - 1))


def _shares(s: OperatorUse) -> Table:
    table = s.table / s.p.get("temperature", 1.0)
    exponent = np.exp(table - table.max(axis=1, keepdims=True))
    over = s.shape[s.p["dim"]]
    result: Table = exponent / exponent.mean(axis=1, keepdims=True) / over
    return result


def _fits(s: OperatorUse) -> bool:
    return bool(4 <= s.shape[s.p["dim"]] <= 1800)


def softmax(name: str, text: str, **more: Any) -> Operator:
    given: dict[str, Any] = {
        "parameters": {"dim": axis},
        "when": _fits,
        "law": _shares,
        "gives": "unit",
        "makes": SHARES,
        "refuses": SHARES,
    } | more
    return Operator(name, "softmax", forms(text, name), given.pop("layouts", LAYOUTS), **given)


SOFTMAX = (
    softmax(
        "softmax",
        "nn.Softmax(dim={dim}) | F.softmax({x}, dim={dim}) | torch.softmax({x}, dim={dim}) | {x}.softmax(dim={dim})",
        often=2.5,
    ),
    softmax(
        "log_softmax",
        "nn.LogSoftmax(dim={dim}) | F.log_softmax({x}, dim={dim}) | torch.log_softmax({x}, dim={dim}) | "
        "{x}.log_softmax(dim={dim})",
        law=lambda s: np.log(_shares(s).clip(1e-30)),
        gives="any",
        makes=frozenset(),
        often=1.5,
    ),
    softmax("softmin", "nn.Softmin(dim={dim}) | F.softmin({x}, dim={dim}) | torch.softmax(-{x}, dim={dim})"),
    softmax(
        "softmax_temperature",
        "torch.softmax({x} / {temperature}, dim={dim}) | F.softmax({x} / {temperature}, dim={dim})",
        parameters={"dim": axis, "temperature": (0.5, 0.7, 1.5, 2.0)},
    ),
    softmax(
        "manual_softmax",
        "{=shifted} = torch.exp({x} - {x}.max(dim={dim}, keepdim=True)[0])\n"
        "{=shifted} / {=shifted}.sum(dim={dim}, keepdim=True) | "
        "{=e} = torch.exp({x} - torch.amax({x}, dim={dim}, keepdim=True))\n{=e} / torch.sum({=e}, dim={dim}, keepdim=True)",
    ),
    softmax(
        "masked_softmax",
        "F.softmax({x}.masked_fill({y}, -1e9), dim=-1) | torch.softmax({x}.masked_fill({y}, -1e9), dim=-1)",
        layouts=("rows", "matrix", "sequence", "heads"),
        parameters={"dim": (-1,)},
        others=(Operand("mask", lambda s: s.shape, "mask"),),
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    softmax(
        "scaled_masked_softmax",
        "torch.softmax({x} * {scale} + {y}, dim=-1) | F.softmax({scale} * {x} + {y}, dim=-1)",
        layouts=("heads", "sequence"),
        parameters={"dim": (-1,), "scale": (0.125, 0.25, 0.5)},
        others=(Operand("bias", lambda s: s.shape),),
        roles=roles("alone"),
    ),
    softmax(
        "softmax_entropy",
        "{=p} = torch.softmax({x}, dim=-1)\n-({=p} * torch.log_softmax({x}, dim=-1)).sum(dim=-1) | "
        "{=logp} = F.log_softmax({x}, dim=-1)\n-torch.sum({=logp}.exp() * {=logp}, dim=-1)",
        layouts=("rows", "sequence"),
        parameters={},
        when=lambda s: s.shape[-1] <= 600,
        law=None,
        roles=roles("alone"),
        dtypes=("float32",),
        contents="wide",
    ),
)
