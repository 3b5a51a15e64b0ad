"""Operators that take one or more axes away: sums, extremes, moments, norms, positions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
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


DEGENERATE = frozenset({"centred", "shares"})
UNIT_NORM = frozenset({"unit_norm"})
KEEP = "{, keepdim=False}"
PLAIN = f"torch.NAME({{x}}, dim={{dim}}{KEEP}) | {{x}}.NAME(dim={{dim}}{KEEP})"

Law = Callable[[Table, int, Random], Table]
"""Of typical contents and how many of them are reduced to one."""


def reduction(
    name: str, law: Law, text: str = PLAIN, *, axes: Callable[[OperatorUse], Any] = one_axis, **more: Any
) -> Operator:
    parameters: dict[str, Any] = {"dim": axes, **more.pop("parameters", {})}
    text = text.replace("NAME", name).replace("KEEP", KEEP)
    if KEEP in text:
        parameters["keepdim"] = (False, False, True)
    return Operator(
        name,
        "reductions",
        forms(text),
        REDUCIBLE,
        parameters,
        when=lambda s: reduced(s) >= 4,
        law=lambda s: law(s.table, reduced(s), s.draw.rng),
        literal=frozenset({"keepdim"}),
        **{"roles": roles("alone tail last")} | more,
    )


def _sum(table: Table, over: int, rng: Random) -> Table:
    return averaged(table, over, rng, total=True)


def _least(table: Table, over: int, rng: Random) -> Table:
    return extreme(table, over, rng, -1)


def _deviation(table: Table, over: int, rng: Random) -> Table:
    spread = float(table.std())
    return gaussian(rng, spread, spread / (2 * over) ** 0.5)


def _log_sum(table: Table, over: int, rng: Random) -> Table:
    result: Table = np.log(_sum(np.exp(np.minimum(table, 30)), over, rng).clip(1e-9))
    return result


ALONE: dict[str, Any] = {"roles": roles("alone"), "dtypes": ("float32",)}
REDUCTIONS = (
    reduction("sum", _sum, PLAIN + " | {x}.sum({dim}KEEP)", axes=some_axes, refuses=DEGENERATE, often=2.0),
    reduction("mean", averaged, PLAIN + " | {x}.mean({dim}KEEP)", axes=some_axes, refuses=DEGENERATE, often=2.0),
    reduction(
        "max",
        extreme,
        "torch.max({x}, dim={dim}KEEP)[0] | torch.max({x}, dim={dim}KEEP).values | {x}.max(dim={dim}KEEP)[0] | "
        "{x}.max(dim={dim}KEEP).values",
        often=2.0,
    ),
    reduction(
        "min",
        _least,
        "torch.min({x}, dim={dim}KEEP)[0] | {x}.min(dim={dim}KEEP).values | torch.min({x}, dim={dim}KEEP).values",
        often=1.6,
    ),
    reduction("amax", extreme, axes=some_axes),
    reduction("amin", _least, axes=some_axes),
    reduction(
        "spread",
        lambda table, over, rng: extreme(table, over, rng) - _least(table, over, rng),
        "{x}.amax(dim={dim}) - {x}.amin(dim={dim}) | torch.amax({x}, dim={dim}) - torch.amin({x}, dim={dim})",
    ),
    reduction("std", _deviation, axes=some_axes, gives="nonnegative"),
    reduction(
        "var",
        lambda table, over, rng: _deviation(table, over, rng) ** 2,
        PLAIN + " | {x}.var(dim={dim}, unbiased=FalseKEEP)",
        axes=some_axes,
        gives="nonnegative",
    ),
    reduction(
        "l1_norm",
        lambda table, over, rng: _sum(np.abs(table), over, rng),
        "torch.norm({x}, p=1, dim={dim}KEEP) | {x}.abs().sum(dim={dim}KEEP) | "
        "torch.linalg.vector_norm({x}, ord=1, dim={dim}KEEP)",
        refuses=DEGENERATE,
        gives="nonnegative",
    ),
    reduction(
        "l2_norm",
        lambda table, over, rng: _sum(table**2, over, rng).clip(1e-9) ** 0.5,
        "torch.norm({x}, p=2, dim={dim}KEEP) | {x}.norm(dim={dim}KEEP) | torch.linalg.vector_norm({x}, dim={dim}KEEP) | "
        "torch.sqrt(torch.sum({x} ** 2, dim={dim}KEEP))",
        gives="nonnegative",
        refuses=UNIT_NORM,
    ),
    reduction(
        "mean_square",
        lambda table, over, rng: averaged(table**2, over, rng),
        "torch.mean({x} ** 2, dim={dim}KEEP) | {x}.pow(2).mean(dim={dim}KEEP) | {x}.square().mean({dim}KEEP)",
        axes=some_axes,
        gives="nonnegative",
        refuses=UNIT_NORM,
    ),
    reduction(
        "mean_abs",
        lambda table, over, rng: averaged(np.abs(table), over, rng),
        "torch.mean(torch.abs({x}), dim={dim}KEEP) | {x}.abs().mean(dim={dim}KEEP)",
        refuses=DEGENERATE,
        gives="nonnegative",
    ),
    reduction("logsumexp", _log_sum, often=1.5),
    reduction(
        "prod",
        lambda table, over, rng: np.exp(_sum(np.log(table.clip(1e-6)), over, rng)),
        contents="near_one",
        takes="positive",
        **ALONE,
    ),
    reduction("argmax", extreme, "torch.argmax({x}, dim={dim}) | {x}.argmax(dim={dim})", **ALONE),
    reduction("argmin", _least, "torch.argmin({x}, dim={dim}) | {x}.argmin(dim={dim})", **ALONE),
    reduction(
        "median",
        averaged,
        "torch.median({x}, dim={dim})[0] | {x}.median(dim={dim}).values",
        axes=lambda s: s.rank - 1,
        roles=roles("alone"),
        refuses=DEGENERATE,
    ),
    reduction(
        "positive_share",
        lambda table, over, rng: averaged(np.where(table > 0.25, 1.0, 0.0), over, rng),
        "({x} > {threshold}).float().mean(dim={dim}) | torch.mean(({x} > {threshold}).float(), dim={dim})",
        parameters={"threshold": (0.0, 0.25, 0.5)},
        **ALONE,
    ),
    reduction(
        "weighted_sum",
        _sum,
        "torch.sum({x} * {y}, dim={dim}) | ({x} * {y}).sum(dim={dim})",
        others=(Operand("weights", lambda s: s.shape),),
        contents="normal",
        roles=roles("alone"),
    ),
    reduction(
        "masked_mean",
        averaged,
        "({x} * {y}).sum(dim={dim}) / {y}.sum(dim={dim}).clamp(min=1.0)",
        others=(Operand("mask", lambda s: s.shape, "zero_one"),),
        **ALONE,
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
