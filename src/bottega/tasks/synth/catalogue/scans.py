"""Running sums, products and extremes along an axis, and recurrences that people write as a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.operator import Operand, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Shape, Table, Value, averaged

LAYOUTS = ("rows", "matrix", "sequence", "ncl")


def _axis(s: OperatorUse) -> int:
    if s.x.layout in ("rows", "matrix"):
        return s.draw.pick((1, 1, -1))
    return s.draw.pick((1, 2, -1))


def _running(s: OperatorUse) -> Table:
    return averaged(s.table, max(2, s.shape[s.p.get("dim", -1)] // 2), s.draw.rng, total=True)


def scan(name: str, text: str, words: str, law: Any = _running, **more: Any) -> Operator:
    parameters = {"dim": _axis, **more.pop("parameters", {})}
    more.setdefault("work", lambda s, out: OperatorCost(2.0 * s.x.bytes, 6.0 * s.x.numel))
    return Operator(
        name,
        "scans",
        forms(text),
        words,
        more.pop("layouts", LAYOUTS),
        parameters,
        law=law,
        refuses=frozenset({"centred"}),
        roles=more.pop("roles", roles("alone")),
        **more,
    )


def _loop(s: OperatorUse, out: Value) -> OperatorCost:
    steps = s.shape[1]
    return OperatorCost(4.0 * s.x.bytes + steps * 20_000, 6.0 * s.x.numel, launches=4 * steps)


def _short(s: OperatorUse) -> Shape | None:
    return s.shape if 8 <= s.shape[1] <= 96 else None


SCANS = (
    scan(
        "cumsum", "torch.cumsum({x}, dim={dim}) | {x}.cumsum(dim={dim})", "cumulative sum", often=2.0, roles=roles("alone tail")
    ),
    scan(
        "cumprod",
        "torch.cumprod({x}, dim={dim}) | {x}.cumprod(dim={dim})",
        "cumulative product",
        lambda s: np.exp(averaged(np.log(s.table.clip(1e-6)), max(2, s.shape[s.p["dim"]] // 2), s.draw.rng, total=True)),
        contents="near_one",
        takes="positive",
        dtypes=("float32",),
        often=1.2,
    ),
    scan(
        "cummax",
        "torch.cummax({x}, dim={dim})[0] | torch.cummax({x}, dim={dim}).values | {x}.cummax({dim}).values",
        "running maximum",
        lambda s: np.abs(s.table) + 2,
        often=0.8,
        work=lambda s, out: OperatorCost(3.0 * s.x.bytes, 16.0 * s.x.numel),
    ),
    scan(
        "cummin",
        "torch.cummin({x}, dim={dim})[0] | {x}.cummin(dim={dim}).values",
        "running minimum",
        lambda s: -np.abs(s.table) - 2,
        often=0.6,
        work=lambda s, out: OperatorCost(3.0 * s.x.bytes, 16.0 * s.x.numel),
    ),
    scan(
        "logcumsumexp",
        "torch.logcumsumexp({x}, dim={dim}) | {x}.logcumsumexp({dim})",
        "running log-sum-exp",
        lambda s: s.table * 0.5 + 4,
        weight=12,
        often=0.8,
        work=lambda s, out: OperatorCost(2.0 * s.x.bytes, 40.0 * s.x.numel),
    ),
    scan(
        "cumsum_reverse",
        (
            "torch.flip(torch.cumsum(torch.flip({x}, dims=[{dim}]), dim={dim}), dims=[{dim}]) | "
            "torch.cumsum({x}.flip({dim}), dim={dim}).flip({dim}) | "
            "{x}.sum(dim={dim}, keepdim=True) - torch.cumsum({x}, dim={dim}) + {x}"
        ),
        "cumulative sum from the end",
        work=lambda s, out: OperatorCost(6.0 * s.x.bytes, 8.0 * s.x.numel, launches=3),
        often=1.2,
    ),
    scan(
        "cumsum_exclusive",
        "torch.cumsum({x}, dim={dim}) - {x} | F.pad(torch.cumsum({x}, dim=-1)[..., :-1], (1, 0))",
        "exclusive cumulative sum",
        work=lambda s, out: OperatorCost(5.0 * s.x.bytes, 7.0 * s.x.numel, launches=2),
        often=1.2,
        parameters={"dim": (-1,)},
        literal=frozenset({"dim"}),
    ),
    scan(
        "cumsum_masked",
        "torch.cumsum({x} * {y}, dim={dim}) | ({x} * {y}).cumsum(dim={dim})",
        "masked cumulative sum",
        others=(Operand("mask", lambda s: s.shape, "mask"),),
        work=lambda s, out: OperatorCost(5.0 * s.x.bytes, 7.0 * s.x.numel, launches=2),
        often=1.2,
    ),
    scan(
        "cummean",
        (
            "torch.cumsum({x}, dim=1) / torch.arange(1, {x}.size(1) + 1, device={x}.device, dtype={x}.dtype) | "
            "{x}.cumsum(dim=-1) / torch.arange(1, {x}.shape[-1] + 1, device={x}.device)"
        ),
        "running mean",
        lambda s: s.table * 0.3,
        layouts=("rows", "matrix"),
        parameters={"dim": (1,)},
        work=lambda s, out: OperatorCost(5.0 * s.x.bytes, 7.0 * s.x.numel, launches=3),
        often=0.8,
        dtypes=("float32",),
    ),
    scan(
        "difference",
        "torch.diff({x}, dim=-1) | {x}[..., 1:] - {x}[..., :-1] | torch.diff({x}, n=1, dim=-1)",
        "differences of neighbours",
        lambda s: s.table - s.table[:, ::-1],
        shape=lambda s: (*s.shape[:-1], s.shape[-1] - 1) if s.shape[-1] > 8 else None,
        layout=lambda s: s.x.layout,
        often=0.6,
        parameters={"dim": (-1,)},
    ),
    scan(
        "prefix_softmax",
        "{=w} = torch.exp({x} - {x}.amax(dim=-1, keepdim=True))\n{=w} / torch.cumsum({=w}, dim=-1)",
        "softmax over prefixes",
        lambda s: np.exp(s.table) * 0.2,
        layouts=("rows", "sequence"),
        parameters={"dim": (-1,)},
        work=lambda s, out: OperatorCost(8.0 * s.x.bytes, 14.0 * s.x.numel, launches=5),
        dtypes=("float32",),
        often=0.4,
        gives="nonnegative",
    ),
    Operator(
        "exponential_average",
        "scans",
        (
            form(
                "{=state} = torch.zeros_like({x}[:, 0])\n{=outputs} = []\nfor {=t} in range({x}.size(1)):\n"
                "    {=state} = {decay} * {=state} + (1 - {decay}) * {x}[:, {=t}]\n"
                "    {=outputs}.append({=state})\ntorch.stack({=outputs}, dim=1)"
            ),
            form(
                "{=h} = {x}[:, 0]\n{=steps} = [{=h}]\nfor {=t} in range(1, {x}.shape[1]):\n"
                "    {=h} = {decay} * {=h} + (1.0 - {decay}) * {x}[:, {=t}]\n    {=steps}.append({=h})\n"
                "torch.stack({=steps}, dim=1)"
            ),
        ),
        "exponential moving average",
        ("sequence",),
        {"decay": (0.5, 0.8, 0.9)},
        shape=_short,
        law=lambda s: s.table * 0.4,
        work=_loop,
        roles=roles("alone"),
        often=0.8,
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
        "gated linear recurrence",
        ("sequence",),
        {},
        others=(Operand("gates", lambda s: s.shape),),
        shape=_short,
        law=lambda s: s.table * 1.3,
        work=_loop,
        roles=roles("alone"),
        often=0.8,
        dtypes=("float32",),
    ),
)
