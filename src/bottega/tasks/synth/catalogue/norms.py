"""Normalisations: torch's own, with statistics over the batch, the features, groups or places, and those people write out."""

from __future__ import annotations

from typing import Any

import numpy as np

from bottega.tasks.synth.operator import BATCHED, IMAGES, Operator, OperatorUse, form, forms, roles
from bottega.tasks.synth.value import Table, count

EPS = (1e-5, 1e-5, 1e-6, 1e-3)
CENTRED = frozenset({"centred"})
UNIT_NORM: dict[str, Any] = {"makes": frozenset({"unit_norm"}), "refuses": frozenset({"unit_norm"})}
UNMARKED: dict[str, Any] = {"makes": frozenset(), "refuses": frozenset()}


def divisors(number: int, most: int = 32) -> list[int]:
    return [candidate for candidate in range(1, min(number, most) + 1) if number % candidate == 0]


def groups(s: OperatorUse) -> int:
    found = [number for number in divisors(s.shape[1]) if 1 < number < s.shape[1]]
    return s.draw.pick(found or [1])


def _over_features(s: OperatorUse) -> Table:
    """Each input by itself."""
    table = s.table
    result: Table = (table - table.mean(axis=1, keepdims=True)) / (table.std(axis=1, keepdims=True) + 1e-6)
    return result


def _over_batch(s: OperatorUse) -> Table:
    """Each place by itself."""
    table = s.table
    result: Table = (table - table.mean(axis=0, keepdims=True)) / (table.std(axis=0, keepdims=True) + 1e-6)
    return result


def _by_size(s: OperatorUse, power: float, size: float) -> Table:
    scale = (np.abs(s.table) ** power).mean(axis=1, keepdims=True) ** (1 / power)
    result: Table = s.table / (scale + 1e-9) * size
    return result


def norm(
    name: str, text: str, layouts: tuple[str, ...], law: Any, parameters: dict[str, Any], attribute: str = "norm", **more: Any
) -> Operator:
    more.setdefault("makes", CENTRED)
    more.setdefault("refuses", CENTRED)
    return Operator(name, "norms", forms(text, attribute), layouts, parameters, law=law, **more)


def _batch(dims: int, layouts: tuple[str, ...]) -> Operator:
    return norm(
        f"batch_norm{dims}d",
        f"nn.BatchNorm{dims}d({{features}}) | nn.BatchNorm{dims}d({{features}}, eps={{eps}}) | "
        f"nn.BatchNorm{dims}d({{features}}, momentum={{momentum}})",
        layouts,
        _over_batch,
        {"features": lambda s: s.shape[1], "eps": EPS, "momentum": (0.1, 0.01, 0.05)},
        "bn",
        cancels_bias=True,
        often=2.0 if dims == 2 else 1.0,
        when=lambda s: s.shape[0] * count(s.shape[2:]) >= 8,
        literal=frozenset({"eps", "momentum"}),
    )


def _instance(dims: int, layout: str) -> Operator:
    return norm(
        f"instance_norm{dims}d",
        f"nn.InstanceNorm{dims}d({{features}}) | nn.InstanceNorm{dims}d({{features}}, affine=True) | F.instance_norm({{x}})",
        (layout,),
        _over_batch,
        {"features": lambda s: s.shape[1]},
        cancels_bias=True,
        when=lambda s: count(s.shape[2:]) >= 16,
    )


NORMS = (
    _batch(1, ("rows", "ncl")),
    _batch(2, ("nchw",)),
    _batch(3, ("ncdhw",)),
    _instance(1, "ncl"),
    _instance(2, "nchw"),
    _instance(3, "ncdhw"),
    norm(
        "layer_norm",
        (
            "nn.LayerNorm({features}) | nn.LayerNorm({features}, eps={eps}) | F.layer_norm({x}, ({features},)) | "
            "F.layer_norm({x}, {x}.shape[-1:])"
        ),
        ("rows", "matrix", "sequence"),
        _over_features,
        {"features": lambda s: s.shape[-1], "eps": EPS},
        often=2.5,
        literal=frozenset({"eps"}),
    ),
    norm(
        "layer_norm_map",
        "nn.LayerNorm({normalized_shape}) | F.layer_norm({x}, {normalized_shape})",
        ("nchw", "ncl"),
        _over_features,
        {"normalized_shape": lambda s: tuple(s.shape[1:])},
        when=lambda s: count(s.shape[1:]) < 300000,
    ),
    norm(
        "rms_norm",
        (
            "nn.RMSNorm({features}) | nn.RMSNorm({features}, eps={eps}) | F.rms_norm({x}, ({features},)) | "
            "{x} / torch.sqrt(torch.mean({x} ** 2, dim=-1, keepdim=True) + {eps}) | "
            "{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + {eps})"
        ),
        ("rows", "matrix", "sequence"),
        lambda s: _by_size(s, 2, 1.0),
        {"features": lambda s: s.shape[-1], "eps": EPS},
        **UNIT_NORM,
        often=1.6,
    ),
    norm(
        "rms_norm_channels",
        "{=rms} = torch.sqrt(torch.mean({x} ** 2, dim=1, keepdim=True) + {eps})\n{x} / {=rms}",
        IMAGES,
        lambda s: _by_size(s, 2, 1.0),
        {"eps": EPS},
        **UNIT_NORM,
    ),
    norm(
        "group_norm",
        (
            "nn.GroupNorm({num_groups}, {channels}) | "
            "nn.GroupNorm(num_groups={num_groups}, num_channels={channels}) | F.group_norm({x}, {num_groups})"
        ),
        (*IMAGES, "rows"),
        _over_features,
        {"num_groups": groups, "channels": lambda s: s.shape[1]},
        often=2.0,
        when=lambda s: count(s.shape[1:]) // s.p["num_groups"] >= 8,
    ),
    norm(
        "local_response_norm",
        "nn.LocalResponseNorm({size}) | F.local_response_norm({x}, {size}, alpha={alpha}, beta={beta}, k={k})",
        ("nchw", "ncl"),
        lambda s: s.table * 0.8,
        {"size": (3, 5), "alpha": (0.001, 0.05), "beta": (0.5, 0.75), "k": (1.0, 2.0)},
        **UNMARKED,
        roles=roles("alone"),
        dtypes=("float32",),
    ),
    Operator(
        "batch_norm_frozen",
        "norms",
        (
            form(
                "F.batch_norm({x}, {@running_mean}, {@running_var}, {@weight}, {@bias}, training=False, eps={eps})",
                ("running_mean", "buffer:torch.randn({features}) * 0.2"),
                ("running_var", "buffer:torch.rand({features}) + 0.5"),
                ("weight", "nn.Parameter(torch.rand({features}) + 0.5)"),
                ("bias", "nn.Parameter(torch.randn({features}) * 0.2)"),
            ),
        ),
        ("nchw", "rows", "ncl"),
        {"features": lambda s: s.shape[1], "eps": EPS},
        literal=frozenset({"eps"}),
        dtypes=("float32",),
    ),
    norm(
        "l2_normalize",
        (
            "F.normalize({x}, dim={dim}) | F.normalize({x}, p=2, dim={dim}) | "
            "{x} / torch.norm({x}, p=2, dim={dim}, keepdim=True) | "
            "{x} / ({x}.norm(dim={dim}, keepdim=True) + 1e-6)"
        ),
        ("rows", "matrix", "sequence", "nchw"),
        lambda s: _by_size(s, 2, s.shape[s.p["dim"]] ** (-0.5)),
        {"dim": lambda s: 1 if s.x.layout in ("rows", "nchw") else -1},
        **UNIT_NORM,
        when=lambda s: s.shape[s.p["dim"]] >= 4,
    ),
    norm(
        "l1_normalize",
        (
            "F.normalize({x}, p=1, dim={dim}) | {x} / torch.sum(torch.abs({x}), dim={dim}, keepdim=True) | "
            "{x} / {x}.abs().sum(dim={dim}, keepdim=True)"
        ),
        ("rows", "matrix"),
        lambda s: _by_size(s, 1, 1.0 / s.shape[s.p["dim"]]),
        {"dim": (1, -1)},
        **UNIT_NORM,
        when=lambda s: s.shape[-1] <= 1500,
    ),
    norm(
        "max_normalize",
        (
            "{x} / ({x}.abs().amax(dim={dim}, keepdim=True) + 1e-5) | "
            "{x} / (torch.amax(torch.abs({x}), dim={dim}, keepdim=True) + 1e-6)"
        ),
        BATCHED,
        lambda s: s.table / 3.0,
        {"dim": (-1,)},
        **UNMARKED,
        literal=frozenset({"dim"}),
    ),
    norm(
        "standardize",
        (
            "({x} - {x}.mean(dim={dim}, keepdim=True)) / ({x}.std(dim={dim}, keepdim=True) + {eps}) | "
            "({x} - torch.mean({x}, dim={dim}, keepdim=True)) / torch.sqrt(torch.var({x}, dim={dim}, keepdim=True, unbiased=False) + {eps})"
        ),
        ("rows", "matrix", "sequence"),
        _over_features,
        {"dim": lambda s: s.draw.pick((-1, s.rank - 1)), "eps": EPS},
    ),
    norm(
        "mean_centre",
        "{x} - {x}.mean(dim={dim}, keepdim=True) | {x} - torch.mean({x}, dim={dim}, keepdim=True)",
        ("rows", "matrix", "sequence", "nchw"),
        lambda s: s.table - s.table.mean(axis=1, keepdims=True),
        {"dim": lambda s: 1 if s.x.layout == "nchw" else -1},
    ),
    norm(
        "frobenius_norm",
        (
            "{x} / torch.norm({x}, dim=(1, 2), keepdim=True) | "
            "{x} / torch.sqrt(torch.sum({x} ** 2, dim=(1, 2), keepdim=True)) * {gain}"
        ),
        ("sequence",),
        lambda s: _by_size(s, 2, count(s.shape[1:]) ** (-0.5)),
        {"gain": (10.0, 50.0)},
        **UNIT_NORM,
        roles=roles("alone"),
    ),
)
