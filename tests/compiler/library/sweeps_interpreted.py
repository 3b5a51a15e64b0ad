"""Runs the kernel library's sweeps by Triton's interpreter, against torch in fp64. Started as a process of its own:

TRITON_INTERPRET=1 python sweeps_interpreted.py
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.compiler.library.triton import cross_entropy, extremes, normalisation, pooling, scan, softmax, sweeps

INFINITE = float("inf")
Found = Iterator[tuple[str, float]]


def distance(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference against the largest value; infinite where shapes or what is not finite differ."""
    if ours.shape != theirs.shape or not torch.equal(ours.isfinite(), theirs.isfinite()):
        return INFINITE
    ours, theirs = (value.double().nan_to_num(0.0, 0.0, 0.0) for value in (ours, theirs))
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-9))


def double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def compared(
    name: str, ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *given: Any, **named: Any
) -> tuple[str, float]:
    wanted = theirs(*map(double, given), **{key: double(value) for key, value in named.items()})
    return name, distance(ours(*given, **named), wanted)


def normalisations() -> Found:
    for block in (4096, 64):
        normalisation.NORM_HELD = normalisation.NORM_BLOCK = block
        sweeps.SWEEP_PROGRAMS = 12
        for shape in ((70, 37), (3, 5, 7, 9)):
            C, x = shape[1], torch.randn(shape) * 2 + 20
            weight, bias, mean, var = torch.randn(C), torch.randn(C), torch.randn(C), torch.rand(C) + 0.5
            for training in (True, False):
                kept = [mean.double(), var.double()]
                wanted = F.batch_norm(x.double(), *kept, weight.double(), bias.double(), training, 0.3)
                own = [mean.clone(), var.clone()]
                got = normalisation.batch_norm(x, *own, weight, bias, training, 0.3)
                for function, ours, theirs in zip(("", " mean", " variance"), (got, *own), (wanted, *kept)):
                    yield f"batch_norm {shape} {training} {block}{function}", distance(ours, theirs)
            yield compared(
                f"layer_norm {shape} {block}", normalisation.layer_norm, F.layer_norm, x, shape[1:], torch.randn(shape[1:])
            )
        yield compared(
            "group_norm", normalisation.group_norm, F.group_norm, torch.randn(2, 6, 5, 7), 2, torch.randn(6), torch.randn(6)
        )
        yield compared(f"instance_norm {block}", normalisation.instance_norm, F.instance_norm, x, weight=weight, bias=bias)
        yield compared(f"no statistics {block}", normalisation.batch_norm, F.batch_norm, x, None, None, training=True)


def poolings() -> Found:
    for dims, shape in ((1, (3, 23)), (2, (2, 3, 11, 9)), (3, (1, 2, 7, 6, 8))):
        x = torch.randn(shape)
        x.view(-1)[7] = float("nan")
        pooling.POOL_BLOCK_BYTES = 128 if dims == 2 else 2048
        for window in ((2, None, 0), (3, 2, 1), (4, 3, 2)):
            for ceil in (False, True):
                name = f"max_pool{dims}d"
                yield compared(f"{name} {window} {ceil}", getattr(pooling, name), getattr(F, name), x, *window, dims, ceil)
                name = f"avg_pool{dims}d"
                size, stride, padding = window
                given = (size, size if stride is None else stride, padding, ceil)
                for counted in (False, True) if dims == 2 else (not ceil,):
                    label = f"{name} {window} {ceil} {counted}"
                    yield compared(label, getattr(pooling, name), getattr(F, name), x, *given, counted)
    x = torch.randn(2, 3, 24, 24)
    yield compared("large window", pooling.avg_pool2d, F.avg_pool2d, x, (9, 11), (5, 6), 1, divisor_override=7)
    for size in (1, 2, 5, (3, None)):
        yield compared(f"adaptive {size}", pooling.adaptive_avg_pool2d, F.adaptive_avg_pool2d, x, size)
    pooling.POOL_LONG_ROW = 100
    yield compared("cut rows", pooling.adaptive_avg_pool1d, F.adaptive_avg_pool1d, torch.randn(2, 5001) + 1, 1)


def scans() -> Found:
    scan.SCAN_BLOCK, scan.SCAN_TALL, scan.SCAN_WIDE = 16, 4, 4
    for shape in ((7, 37), (3, 11, 5), (9,)):
        x = torch.randn(shape)
        for dim in range(len(shape)):
            yield compared(f"cumsum {shape} {dim}", scan.cumsum, torch.cumsum, x, dim)
            yield compared(f"cumprod {shape} {dim}", scan.cumprod, torch.cumprod, x, dim)


def softmaxes() -> Found:
    softmax.SOFTMAX_BLOCK = 16
    for held, few in ((64, 0), (16, 0), (16, 132)):
        softmax.SOFTMAX_HELD, softmax.SOFTMAX_FEW = held, few
        x = torch.randn(5, 50) * 5
        x[0, 3] = -INFINITE
        x[2] = -INFINITE
        x[3, 7] = INFINITE
        yield compared(f"softmax {held} {few}", softmax.softmax, F.softmax, x, 1)
        yield compared(f"log_softmax {held} {few}", softmax.log_softmax, F.log_softmax, x, 1)
    for shape in ((3, 11, 5), (2, 300, 3)):
        yield compared(f"softmax {shape}", softmax.softmax, F.softmax, torch.randn(shape), 1)
    half = torch.randn(4, 10).half()
    yield "softmax of halves", float(softmax.softmax(half, 1, dtype=torch.float32).dtype != torch.float32)


def losses() -> Found:
    cross_entropy.SOFTMAX_BLOCK, cross_entropy.SOFTMAX_TILE = 16, 64
    for shape, held, block in (((21, 50), 64, 8192), ((21, 50), 16, 4), ((2, 70, 3, 5), 64, 4), ((9,), 64, 8192)):
        cross_entropy.SOFTMAX_HELD, cross_entropy.CROSS_ENTROPY_BLOCK = held, block
        axis = min(1, len(shape) - 1)
        x, target = torch.randn(shape) * 5, torch.randint(0, shape[axis], shape[:axis] + shape[axis + 1 :])
        target.view(-1)[2:3] = 7
        for weight in (None, torch.rand(shape[axis])):
            for smoothing in (0.0, 0.2):
                for reduction in ("mean", "sum", "none"):
                    named = {"ignore_index": 7, "reduction": reduction, "label_smoothing": smoothing, "weight": weight}
                    label = f"cross_entropy {shape} {held} {reduction} {smoothing} {weight is not None}"
                    yield compared(label, cross_entropy.cross_entropy, F.cross_entropy, x, target, **named)
    x, chances = torch.randn(5, 7), torch.randn(5, 7).softmax(1)
    yield compared("cross_entropy of chances", cross_entropy.cross_entropy, F.cross_entropy, x, chances)


def places() -> Found:
    extremes.EXTREME_TALL = 2
    for block, programs in ((2048, 1), (16, 40)):
        extremes.EXTREME_BLOCK, extremes.EXTREME_PROGRAMS = block, programs
        for shape in ((6, 133), (3, 37, 5)):
            x = (torch.randn(shape) * 2).round()
            x.view(-1)[4] = float("nan")
            x[1] = -INFINITE
            for dim in (*range(len(shape)), None):
                for name in ("argmax", "argmin"):
                    ours, theirs = getattr(extremes, name)(x, dim), getattr(torch, name)(x, dim)
                    yield f"{name} {shape} {dim} {block}", float(not torch.equal(ours, theirs))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    functions = (normalisations, poolings, scans, softmaxes, losses, places)
    print(json.dumps({function.__name__: list(function()) for function in functions}))
