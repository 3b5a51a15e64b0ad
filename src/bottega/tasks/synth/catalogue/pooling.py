"""Pooling over one, two and three axes: largest, mean, power mean, fixed windows and fixed outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bottega.tasks.synth.operator import Operator, OperatorUse, forms
from bottega.tasks.synth.value import Table, averaged, count, extreme

Law = Callable[[OperatorUse], Table]

LAYOUT = {1: "ncl", 2: "nchw", 3: "ncdhw"}


def _window(s: OperatorUse) -> int:
    return s.draw.weighted((2, 3, 4, 5), (5, 3, 1, 1))


def _stride(s: OperatorUse) -> int:
    kernel = s.p["kernel_size"]
    return int(s.draw.weighted((kernel, 2, 1), (5, 3, 1)))


def _padding(s: OperatorUse) -> int:
    return int(s.draw.pick((0, 0, s.p["kernel_size"] // 2)))


WINDOW: dict[str, Any] = {"kernel_size": _window, "stride": _stride}


def _pool(name: str, dims: int, text: str, parameters: dict[str, Any], law: Law, **more: Any) -> Operator:
    return Operator(name, "pooling", forms(text, "pool"), (LAYOUT[dims],), parameters, law=law, gives="same", **more)


def _cells(s: OperatorUse) -> int:
    return int(s.p["kernel_size"] ** (s.rank - 2))


def _outputs(s: OperatorUse) -> int | tuple[int, ...]:
    size = int(s.draw.weighted((1, 2, 4, 7, 8), (4, 1, 2, 2, 1)))
    if s.rank > 3 and s.draw.chance(0.5):
        return tuple(size for _ in s.shape[2:])
    return size


def _halved(s: OperatorUse) -> bool:
    sizes = s.p["output_size"]
    return bool(min(s.shape[2:]) >= 2 * (max(sizes) if isinstance(sizes, tuple) else sizes))


def _share(s: OperatorUse) -> int:
    """Elements behind one of the output."""
    sizes = s.p["output_size"]
    return max(1, count(s.shape[2:]) // (count(sizes) if isinstance(sizes, tuple) else sizes ** (s.rank - 2)))


def _places(s: OperatorUse) -> int:
    return count(s.shape[2:])


def _windowed(kind: str, dims: int) -> Operator:
    """`kind` is torch's word: Max or Avg."""
    more, law = ("{, dilation=1}", extreme) if kind == "Max" else ("", averaged)
    return _pool(
        f"{kind.lower()}_pool{dims}d",
        dims,
        f"nn.{kind}Pool{dims}d({{kernel_size}}, stride={{stride}}{{, padding=0}}{more}) | "
        f"nn.{kind}Pool{dims}d(kernel_size={{kernel_size}}, stride={{stride}}, padding={{padding}}{more}) | "
        f"F.{kind.lower()}_pool{dims}d({{x}}, {{kernel_size}}, stride={{stride}}{{, padding=0}}{more})",
        WINDOW | {"padding": _padding} | ({"dilation": (1, 1, 1, 2)} if more else {}),
        lambda s: law(s.table, _cells(s), s.draw.rng),
        often=2.0 if dims == 2 else 1.0,
    )


def _adaptive(kind: str, dims: int) -> Operator:
    law = extreme if kind == "Max" else averaged
    return _pool(
        f"adaptive_{kind.lower()}_pool{dims}d",
        dims,
        f"nn.Adaptive{kind}Pool{dims}d({{output_size}}) | F.adaptive_{kind.lower()}_pool{dims}d({{x}}, {{output_size}})",
        {"output_size": _outputs},
        lambda s: law(s.table, _share(s), s.draw.rng),
        when=_halved,
        refuses=frozenset() if kind == "Max" else frozenset({"centred"}),
    )


def _power(dims: int) -> Operator:
    return _pool(
        f"lp_pool{dims}d",
        dims,
        f"nn.LPPool{dims}d({{norm_type}}, {{kernel_size}}, stride={{stride}}) | "
        f"F.lp_pool{dims}d({{x}}, {{norm_type}}, {{kernel_size}}, stride={{stride}})",
        WINDOW | {"norm_type": (2, 2, 3)},
        lambda s: np.abs(s.table) * 2,
        dtypes=("float32",),
        takes="nonnegative",
    )


POOLING = (
    *(_windowed(kind, dims) for kind in ("Max", "Avg") for dims in LAYOUT),
    *(_adaptive(kind, dims) for kind in ("Max", "Avg") for dims in LAYOUT),
    _power(1),
    _power(2),
    _pool(
        "global_avg_pool",
        2,
        "{x}.mean(dim=(2, 3)) | torch.mean({x}, dim=[2, 3]) | F.adaptive_avg_pool2d({x}, 1).flatten(1) | "
        "{x}.flatten(2).mean(dim=-1)",
        {},
        lambda s: averaged(s.table, _places(s), s.draw.rng),
        refuses=frozenset({"centred"}),
    ),
    _pool(
        "global_max_pool",
        2,
        "{x}.amax(dim=(2, 3)) | torch.amax({x}, dim=(2, 3)) | F.adaptive_max_pool2d({x}, 1).flatten(1) | "
        "{x}.flatten(2).max(dim=-1)[0]",
        {},
        lambda s: extreme(s.table, _places(s), s.draw.rng),
    ),
    _pool(
        "global_logsumexp_pool",
        2,
        "torch.logsumexp({x}, dim=(2, 3)) | {x}.flatten(2).logsumexp(dim=-1)",
        {},
        lambda s: np.log(averaged(np.exp(np.minimum(s.table, 30)), _places(s), s.draw.rng, total=True).clip(1e-9)),
    ),
)
