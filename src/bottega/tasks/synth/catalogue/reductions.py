"""Operators that take one or more axes away: sums, extremes, moments, norms, positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bottega.tasks.synth.operator import Operand, Operator, OperatorUse, forms, roles
from bottega.tasks.synth.value import Table, averaged, count, extreme, gaussian

REDUCIBLE = ("rows", "matrix", "sequence", "ncl", "nchw", "ncdhw", "heads")


def one_axis(s: OperatorUse) -> int:
    """An axis behind the batch, counted from either end."""
    axis = (
        s.draw.pick(range(1, s.rank))
        if s.x.layout not in ("matrix", "sequence") or s.draw.chance(0.8)
        else s.draw.pick(range(s.rank))
    )
    return axis - s.rank if s.draw.chance(0.3) else axis


def some_axes(s: OperatorUse) -> int | tuple[int, ...]:
    if s.x.layout in ("nchw", "ncdhw") and s.draw.chance(0.6):
        spatial = tuple(range(2, s.rank))
        return spatial if s.draw.chance(0.8) else (1, *spatial)
    return one_axis(s)


def axes_of(s: OperatorUse) -> set[int]:
    dim = s.p["dim"]
    return {axis % s.rank for axis in (dim if isinstance(dim, tuple) else (dim,))}


def reduced(s: OperatorUse) -> int:
    return count(tuple(s.shape[axis] for axis in axes_of(s)))


def reduction(
    name: str,
    text: str,
    law: Callable[[OperatorUse], Table],
    *,
    axes: Callable[[OperatorUse], Any] = one_axis,
    keep: bool = True,
    often: float = 1.0,
    **more: Any,
) -> Operator:
    parameters: dict[str, Any] = {"dim": axes, **more.pop("parameters", {})}
    if keep:
        parameters["keepdim"] = (False, False, True)
    return Operator(
        name,
        "reductions",
        forms(text),
        REDUCIBLE,
        parameters,
        when=lambda s: reduced(s) >= 4,
        law=law,
        often=often,
        literal=frozenset({"keepdim"}),
        roles=more.pop("roles", roles("alone tail last")),
        **more,
    )


def _moment(s: OperatorUse, square: bool) -> Table:
    spread = float(s.table.std())
    value = spread**2 if square else spread
    return gaussian(s.draw.rng, value, value * (2 if square else 1) / (2 * reduced(s)) ** 0.5)


def _length(s: OperatorUse, power: int) -> Table:
    return averaged(np.abs(s.table) ** power, reduced(s), s.draw.rng, total=True).clip(1e-9) ** (1 / power)


DEGENERATE = frozenset({"centred", "shares"})

REDUCTIONS = (
    reduction(
        "sum",
        ("torch.sum({x}, dim={dim}{, keepdim=False}) | {x}.sum(dim={dim}{, keepdim=False}) | {x}.sum({dim}{, keepdim=False})"),
        lambda s: averaged(s.table, reduced(s), s.draw.rng, total=True),
        axes=some_axes,
        refuses=DEGENERATE,
        often=2.0,
    ),
    reduction(
        "mean",
        (
            "torch.mean({x}, dim={dim}{, keepdim=False}) | {x}.mean(dim={dim}{, keepdim=False}) | "
            "{x}.mean({dim}{, keepdim=False})"
        ),
        lambda s: averaged(s.table, reduced(s), s.draw.rng),
        axes=some_axes,
        refuses=DEGENERATE,
        often=2.0,
    ),
    reduction(
        "max",
        (
            "torch.max({x}, dim={dim}{, keepdim=False})[0] | torch.max({x}, dim={dim}{, keepdim=False}).values | "
            "{x}.max(dim={dim}{, keepdim=False})[0] | {x}.max(dim={dim}{, keepdim=False}).values"
        ),
        lambda s: extreme(s.table, reduced(s), s.draw.rng),
        often=2.0,
    ),
    reduction(
        "min",
        (
            "torch.min({x}, dim={dim}{, keepdim=False})[0] | {x}.min(dim={dim}{, keepdim=False}).values | "
            "torch.min({x}, dim={dim}{, keepdim=False}).values"
        ),
        lambda s: extreme(s.table, reduced(s), s.draw.rng, -1),
        often=1.6,
    ),
    reduction(
        "amax",
        "torch.amax({x}, dim={dim}{, keepdim=False}) | {x}.amax(dim={dim}{, keepdim=False})",
        lambda s: extreme(s.table, reduced(s), s.draw.rng),
        axes=some_axes,
    ),
    reduction(
        "amin",
        "torch.amin({x}, dim={dim}{, keepdim=False}) | {x}.amin(dim={dim}{, keepdim=False})",
        lambda s: extreme(s.table, reduced(s), s.draw.rng, -1),
        axes=some_axes,
    ),
    reduction(
        "spread",
        "{x}.amax(dim={dim}) - {x}.amin(dim={dim}) | torch.amax({x}, dim={dim}) - torch.amin({x}, dim={dim})",
        lambda s: extreme(s.table, reduced(s), s.draw.rng) - extreme(s.table, reduced(s), s.draw.rng, -1),
        keep=False,
    ),
    reduction(
        "std",
        "torch.std({x}, dim={dim}{, keepdim=False}) | {x}.std(dim={dim}{, keepdim=False})",
        lambda s: _moment(s, False),
        axes=some_axes,
        gives="nonnegative",
    ),
    reduction(
        "var",
        (
            "torch.var({x}, dim={dim}{, keepdim=False}) | {x}.var(dim={dim}{, keepdim=False}) | "
            "{x}.var(dim={dim}, unbiased=False{, keepdim=False})"
        ),
        lambda s: _moment(s, True),
        axes=some_axes,
        gives="nonnegative",
    ),
    reduction(
        "l1_norm",
        (
            "torch.norm({x}, p=1, dim={dim}{, keepdim=False}) | {x}.abs().sum(dim={dim}{, keepdim=False}) | "
            "torch.linalg.vector_norm({x}, ord=1, dim={dim}{, keepdim=False})"
        ),
        lambda s: _length(s, 1),
        refuses=DEGENERATE,
        gives="nonnegative",
    ),
    reduction(
        "l2_norm",
        (
            "torch.norm({x}, p=2, dim={dim}{, keepdim=False}) | {x}.norm(dim={dim}{, keepdim=False}) | "
            "torch.linalg.vector_norm({x}, dim={dim}{, keepdim=False}) | "
            "torch.sqrt(torch.sum({x} ** 2, dim={dim}{, keepdim=False}))"
        ),
        lambda s: _length(s, 2),
        gives="nonnegative",
        refuses=frozenset({"unit_norm"}),
    ),
    reduction(
        "mean_square",
        (
            "torch.mean({x} ** 2, dim={dim}{, keepdim=False}) | {x}.pow(2).mean(dim={dim}{, keepdim=False}) | "
            "{x}.square().mean({dim}{, keepdim=False})"
        ),
        lambda s: averaged(s.table**2, reduced(s), s.draw.rng),
        axes=some_axes,
        gives="nonnegative",
        refuses=frozenset({"unit_norm"}),
    ),
    reduction(
        "mean_abs",
        "torch.mean(torch.abs({x}), dim={dim}{, keepdim=False}) | {x}.abs().mean(dim={dim}{, keepdim=False})",
        lambda s: averaged(np.abs(s.table), reduced(s), s.draw.rng),
        refuses=DEGENERATE,
        gives="nonnegative",
    ),
    reduction(
        "logsumexp",
        "torch.logsumexp({x}, dim={dim}{, keepdim=False}) | {x}.logsumexp(dim={dim}{, keepdim=False})",
        lambda s: np.log(averaged(np.exp(np.minimum(s.table, 30)), reduced(s), s.draw.rng, total=True).clip(1e-09)),
        often=1.5,
    ),
    reduction(
        "prod",
        "torch.prod({x}, dim={dim}{, keepdim=False}) | {x}.prod(dim={dim}{, keepdim=False})",
        lambda s: np.exp(averaged(np.log(s.table.clip(1e-06)), reduced(s), s.draw.rng, total=True)),
        contents="near_one",
        takes="positive",
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    reduction(
        "argmax",
        "torch.argmax({x}, dim={dim}) | {x}.argmax(dim={dim})",
        lambda s: s.table,
        keep=False,
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    reduction(
        "argmin",
        "torch.argmin({x}, dim={dim}) | {x}.argmin(dim={dim})",
        lambda s: s.table,
        keep=False,
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    reduction(
        "median",
        "torch.median({x}, dim={dim})[0] | {x}.median(dim={dim}).values",
        lambda s: averaged(s.table, reduced(s), s.draw.rng),
        axes=lambda s: s.rank - 1,
        keep=False,
        roles=roles("alone"),
        refuses=DEGENERATE,
    ),
    reduction(
        "positive_share",
        "({x} > {threshold}).float().mean(dim={dim}) | torch.mean(({x} > {threshold}).float(), dim={dim})",
        lambda s: averaged((s.table > s.p["threshold"]) * 1.0, reduced(s), s.draw.rng),
        keep=False,
        parameters={"threshold": (0.0, 0.25, 0.5)},
        gives="unit",
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    reduction(
        "weighted_sum",
        "torch.sum({x} * {y}, dim={dim}) | ({x} * {y}).sum(dim={dim})",
        lambda s: averaged(s.table * s.others[0].typical, reduced(s), s.draw.rng, total=True),
        keep=False,
        others=(Operand("weights", lambda s: s.shape),),
        roles=roles("alone"),
    ),
    reduction(
        "masked_mean",
        "({x} * {y}).sum(dim={dim}) / {y}.sum(dim={dim}).clamp(min=1.0)",
        lambda s: averaged(s.table, reduced(s), s.draw.rng),
        keep=False,
        others=(Operand("mask", lambda s: s.shape, "zero_one"),),
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    Operator(
        "topk",
        "reductions",
        forms("torch.topk({x}, {k}, dim=-1)[0] | torch.topk({x}, k={k}, dim=-1).values | {x}.topk({k}, dim=-1).values"),
        ("rows", "matrix", "sequence"),
        {"k": (2, 4, 5, 8, 10, 16)},
        when=lambda s: s.shape[-1] > 2 * s.p["k"],
        law=lambda s: extreme(s.table, s.shape[-1] // s.p["k"], s.draw.rng),
        roles=roles("alone"),
    ),
)
