"""Pooling over one, two and three axes: largest, mean, power mean, fixed windows and fixed outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.operator import Operator, OperatorUse, forms
from bottega.tasks.synth.value import Shape, Table, Value, averaged, count, extreme

LAYOUT = {1: "ncl", 2: "nchw", 3: "ncdhw"}


def _window(s: OperatorUse) -> int:
    return s.draw.weighted((2, 3, 4, 5), (5, 3, 1, 1))


def _stride(s: OperatorUse) -> int:
    kernel = s.p["kernel_size"]
    return int(s.draw.weighted((kernel, 2, 1), (5, 3, 1)))


def _padding(s: OperatorUse) -> int:
    return int(s.draw.pick((0, 0, s.p["kernel_size"] // 2)))


def _windows(s: OperatorUse) -> Shape | None:
    kernel, stride, padding, dilation = (
        s.p.get(name, default) for name, default in (("kernel_size", 2), ("stride", 2), ("padding", 0), ("dilation", 1))
    )
    lengths = [(length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for length in s.shape[2:]]
    return (*s.shape[:2], *lengths) if min(lengths) >= 2 else None


def _pool(
    name: str,
    dims: int,
    text: str,
    words: str,
    parameters: dict[str, Any],
    law: Callable[[OperatorUse], Table],
    often: float,
    shape: Any = _windows,
    **more: Any,
) -> Operator:
    def work(s: OperatorUse, out: Value) -> OperatorCost:
        return OperatorCost(s.x.bytes + out.bytes, 9.0 * max(out.numel * s.p.get("kernel_size", 1) ** dims, s.x.numel))

    return Operator(
        name,
        "pooling",
        forms(text, "pool"),
        words,
        (LAYOUT[dims],),
        parameters,
        shape=shape,
        layout=LAYOUT[dims],
        law=law,
        work=work,
        often=often,
        gives="same",
        **more,
    )


def _cells(s: OperatorUse) -> int:
    return int(s.p["kernel_size"] ** (s.rank - 2))


def _outputs(s: OperatorUse) -> int | tuple[int, ...]:
    size = int(s.draw.weighted((1, 2, 4, 7, 8), (4, 1, 2, 2, 1)))
    if s.rank > 3 and s.draw.chance(0.5):
        return tuple(size for _ in s.shape[2:])
    return size


def _adapted(s: OperatorUse) -> Shape | None:
    sizes = s.p["output_size"]
    lengths = sizes if isinstance(sizes, tuple) else tuple(sizes for _ in s.shape[2:])
    return (*s.shape[:2], *lengths) if all(2 * new <= old for new, old in zip(lengths, s.shape[2:])) else None


def _share(s: OperatorUse) -> int:
    return max(1, count(s.shape) // count(_adapted(s) or s.shape))


def _max(dims: int, often: float) -> Operator:
    return _pool(
        f"max_pool{dims}d",
        dims,
        (
            f"nn.MaxPool{dims}d({{kernel_size}}, stride={{stride}}{{, padding=0}}{{, dilation=1}}) | "
            f"nn.MaxPool{dims}d(kernel_size={{kernel_size}}, stride={{stride}}, padding={{padding}}{{, dilation=1}}) | "
            f"F.max_pool{dims}d({{x}}, {{kernel_size}}, stride={{stride}}{{, padding=0}}{{, dilation=1}})"
        ),
        f"{dims}D max pooling",
        {"kernel_size": _window, "stride": _stride, "padding": _padding, "dilation": (1, 1, 1, 2)},
        lambda s: extreme(s.table, _cells(s), s.draw.rng),
        often,
    )


def _avg(dims: int, often: float) -> Operator:
    return _pool(
        f"avg_pool{dims}d",
        dims,
        (
            f"nn.AvgPool{dims}d({{kernel_size}}, stride={{stride}}{{, padding=0}}) | "
            f"nn.AvgPool{dims}d(kernel_size={{kernel_size}}, stride={{stride}}, padding={{padding}}) | "
            f"F.avg_pool{dims}d({{x}}, {{kernel_size}}, stride={{stride}}{{, padding=0}})"
        ),
        f"{dims}D average pooling",
        {"kernel_size": _window, "stride": _stride, "padding": _padding},
        lambda s: averaged(s.table, _cells(s), s.draw.rng),
        often,
    )


def _adaptive(dims: int, largest: bool, often: float) -> Operator:
    word = "Max" if largest else "Avg"
    return _pool(
        f"adaptive_{word.lower()}_pool{dims}d",
        dims,
        (f"nn.Adaptive{word}Pool{dims}d({{output_size}}) | F.adaptive_{word.lower()}_pool{dims}d({{x}}, {{output_size}})"),
        f"adaptive {dims}D {'max' if largest else 'average'} pooling",
        {"output_size": _outputs},
        (lambda s: extreme(s.table, _share(s), s.draw.rng))
        if largest
        else (lambda s: averaged(s.table, _share(s), s.draw.rng)),
        often,
        _adapted,
        refuses=frozenset() if largest else frozenset({"centred"}),
    )


def _global(name: str, text: str, words: str, law: Callable[[OperatorUse], Table], often: float, **more: Any) -> Operator:
    return Operator(
        name,
        "pooling",
        forms(text, "pool"),
        words,
        ("nchw",),
        {},
        shape=lambda s: (s.shape[0], s.shape[1]),
        layout="rows",
        law=law,
        often=often,
        gives="same",
        **more,
    )


def _places(s: OperatorUse) -> int:
    return count(s.shape[2:])


POOLING = (
    _max(1, 0.8),
    _max(2, 2.0),
    _max(3, 1.2),
    _avg(1, 0.8),
    _avg(2, 2.0),
    _avg(3, 1.2),
    _adaptive(1, False, 0.5),
    _adaptive(2, False, 1.2),
    _adaptive(3, False, 0.6),
    _adaptive(1, True, 0.4),
    _adaptive(2, True, 0.7),
    _adaptive(3, True, 0.4),
    _pool(
        "lp_pool1d",
        1,
        (
            "nn.LPPool1d({norm_type}, {kernel_size}, stride={stride}) | "
            "F.lp_pool1d({x}, {norm_type}, {kernel_size}, stride={stride})"
        ),
        "1D power-average pooling",
        {"norm_type": (2, 2, 3), "kernel_size": _window, "stride": _stride},
        lambda s: np.abs(s.table) * 2,
        0.5,
        dtypes=("float32",),
        takes="nonnegative",
    ),
    _pool(
        "lp_pool2d",
        2,
        (
            "nn.LPPool2d({norm_type}, {kernel_size}, stride={stride}) | "
            "F.lp_pool2d({x}, {norm_type}, {kernel_size}, stride={stride})"
        ),
        "2D power-average pooling",
        {"norm_type": (2, 2, 3), "kernel_size": _window, "stride": _stride},
        lambda s: np.abs(s.table) * 2,
        0.5,
        dtypes=("float32",),
        takes="nonnegative",
    ),
    _global(
        "global_avg_pool",
        (
            "{x}.mean(dim=(2, 3)) | torch.mean({x}, dim=[2, 3]) | F.adaptive_avg_pool2d({x}, 1).flatten(1) | "
            "{x}.flatten(2).mean(dim=-1)"
        ),
        "global average pooling",
        lambda s: averaged(s.table, _places(s), s.draw.rng),
        1.2,
        refuses=frozenset({"centred"}),
    ),
    _global(
        "global_max_pool",
        (
            "{x}.amax(dim=(2, 3)) | torch.amax({x}, dim=(2, 3)) | F.adaptive_max_pool2d({x}, 1).flatten(1) | "
            "{x}.flatten(2).max(dim=-1)[0]"
        ),
        "global max pooling",
        lambda s: extreme(s.table, _places(s), s.draw.rng),
        0.8,
    ),
    _global(
        "global_logsumexp_pool",
        "torch.logsumexp({x}, dim=(2, 3)) | {x}.flatten(2).logsumexp(dim=-1)",
        "global log-sum-exp pooling",
        lambda s: np.log(averaged(np.exp(np.minimum(s.table, 30)), _places(s), s.draw.rng, total=True).clip(1e-9)),
        0.6,
        weight=6,
    ),
)
