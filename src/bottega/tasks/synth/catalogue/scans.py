"""Running sums, products and extremes along an axis, and recurrences that people write as a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from bottega.tasks.synth.operator import Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Table, averaged

LAYOUTS = ("rows", "matrix", "sequence", "ncl")


def _axis(s: OperatorUse) -> int:
    if s.x.layout in ("rows", "matrix"):
        return s.draw.pick((1, 1, -1))
    return s.draw.pick((1, 2, -1))


def _running(s: OperatorUse) -> Table:
    return averaged(s.table, max(2, s.shape[s.p.get("dim", -1)] // 2), s.draw.rng, total=True)


def scan(name: str, text: str, law: Any = _running, **more: Any) -> Operator:
    parameters = {"dim": _axis, **more.pop("parameters", {})}
    given: dict[str, Any] = {"roles": roles("alone"), "layouts": LAYOUTS, "refuses": frozenset({"centred"})} | more
    return Operator(name, "scans", forms(text), parameters=parameters, law=law, **given)


def _short(s: OperatorUse) -> bool:
    return 8 <= s.shape[1] <= 96


SCANS = (
    scan("cumsum", "torch.cumsum({x}, dim={dim}) | {x}.cumsum(dim={dim})", often=2.0, roles=roles("alone tail")),
    scan(
        "cumprod",
        "torch.cumprod({x}, dim={dim}) | {x}.cumprod(dim={dim})",
        lambda s: np.exp(averaged(np.log(s.table.clip(1e-06)), max(2, s.shape[s.p["dim"]] // 2), s.draw.rng, total=True)),
        contents="near_one",
        takes="positive",
        dtypes=("float32",),
    ),
    scan(
        "cummax",
        "torch.cummax({x}, dim={dim})[0] | torch.cummax({x}, dim={dim}).values | {x}.cummax({dim}).values",
        lambda s: np.abs(s.table) + 2,
    ),
    scan("cummin", "torch.cummin({x}, dim={dim})[0] | {x}.cummin(dim={dim}).values", lambda s: -np.abs(s.table) - 2),
    scan("logcumsumexp", "torch.logcumsumexp({x}, dim={dim}) | {x}.logcumsumexp({dim})", lambda s: s.table * 0.5 + 4),
    scan(
        "cumsum_reverse",
        (
            "torch.flip(torch.cumsum(torch.flip({x}, dims=[{dim}]), dim={dim}), dims=[{dim}]) | "
            "torch.cumsum({x}.flip({dim}), dim={dim}).flip({dim}) | "
            "{x}.sum(dim={dim}, keepdim=True) - torch.cumsum({x}, dim={dim}) + {x}"
        ),
    ),
    scan(
        "cumsum_exclusive",
        "torch.cumsum({x}, dim={dim}) - {x} | F.pad(torch.cumsum({x}, dim=-1)[..., :-1], (1, 0))",
        parameters={"dim": (-1,)},
        literal=frozenset({"dim"}),
    ),
    scan(
        "cumsum_masked",
        "torch.cumsum({x} * {y}, dim={dim}) | ({x} * {y}).cumsum(dim={dim})",
        others=(Operand("mask", lambda s: s.shape, "mask"),),
    ),
    scan(
        "cummean",
        (
            "torch.cumsum({x}, dim=1) / torch.arange(1, {x}.size(1) + 1, device={x}.device, dtype={x}.dtype) | "
            "{x}.cumsum(dim=-1) / torch.arange(1, {x}.shape[-1] + 1, device={x}.device)"
        ),
        lambda s: s.table * 0.3,
        layouts=("rows", "matrix"),
        parameters={"dim": (1,)},
        dtypes=("float32",),
    ),
    scan(
        "difference",
        "torch.diff({x}, dim=-1) | {x}[..., 1:] - {x}[..., :-1] | torch.diff({x}, n=1, dim=-1)",
        lambda s: s.table - s.table[:, ::-1],
        when=lambda s: s.shape[-1] > 8,
        parameters={"dim": (-1,)},
    ),
    scan(
        "prefix_softmax",
        "{=w} = torch.exp({x} - {x}.amax(dim=-1, keepdim=True))\n{=w} / torch.cumsum({=w}, dim=-1)",
        lambda s: np.exp(s.table) * 0.2,
        layouts=("rows", "sequence"),
        parameters={"dim": (-1,)},
        dtypes=("float32",),
    ),
    Operator(
        "exponential_average",
        "scans",
        (
            form(
                "{=state} = torch.zeros_like({x}[:, 0])\n{=outputs} = []\nfor {=t} in range({x}.size(1)):\n"
                "    {=state} = {decay} * {=state} + (1 - {decay}) * {x}[:, {=t}]\n    {=outputs}.append({=state})\n"
                "torch.stack({=outputs}, dim=1)"
            ),
            form(
                "{=h} = {x}[:, 0]\n{=steps} = [{=h}]\nfor {=t} in range(1, {x}.shape[1]):\n"
                "    {=h} = {decay} * {=h} + (1.0 - {decay}) * {x}[:, {=t}]\n    {=steps}.append({=h})\n"
                "torch.stack({=steps}, dim=1)"
            ),
        ),
        ("sequence",),
        {"decay": (0.5, 0.8, 0.9)},
        when=_short,
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    Operator(
        "linear_recurrence",
        "scans",
        (
            form(
                "{=a} = torch.sigmoid({y})\n{=h} = torch.zeros_like({x}[:, 0])\n{=hs} = []\n"
                "for {=t} in range({x}.size(1)):\n    {=h} = {=a}[:, {=t}] * {=h} + {x}[:, {=t}]\n"
                "    {=hs}.append({=h})\ntorch.stack({=hs}, dim=1)"
            ),
        ),
        ("sequence",),
        {},
        others=(Operand("gates", lambda s: s.shape),),
        when=_short,
        roles=roles("alone"),
        dtypes=("float32",),
    ),
)
