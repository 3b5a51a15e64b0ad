"""Products, convolutions and attention of the kernel library compute what torch does, at sizes that divide by nothing, by Triton's interpreter.

The interpreter is chosen when Triton is imported, so the checks run in a process of their own: this file, started as a program.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

LIMIT = 5e-6
CHECKS: dict[str, Callable[[], dict[str, float]]] = {}


def check(function: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    CHECKS[function.__name__] = function
    return function


def distance(got: Any, wanted: Any) -> float:
    """The relative error in the root mean square; infinite where shape, type or places of NaN differ."""
    if got.shape != wanted.shape or got.dtype != torch.float32 or bool((got.isnan() != wanted.isnan()).any()):
        return float("inf")
    apart = (got.double() - wanted.double()).nan_to_num()
    return float(apart.pow(2).mean().sqrt() / (wanted.double().nan_to_num().pow(2).mean().sqrt() + 1e-6))


def doubled(values: Any) -> list[Any]:
    return [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values]


class Kernels:
    """How many kernels were started since the last look."""

    def __init__(self) -> None:
        from triton.runtime.interpreter import GridExecutor

        self.count, started = 0, GridExecutor.__call__

        def counted(executor: Any, *arguments: Any, **named: Any) -> Any:
            self.count += 1
            return started(executor, *arguments, **named)

        GridExecutor.__call__ = counted

    def taken(self) -> bool:
        count, self.count = self.count, 0
        return count > 0


def compare(
    found: dict[str, float],
    name: str,
    ours: Any,
    theirs: Any,
    *given: Any,
    kernels: Kernels,
    by_kernel: bool = True,
    **named: Any,
) -> None:
    shapes = " ".join(str(tuple(v.shape)) if isinstance(v, torch.Tensor) else str(v) for v in given)
    got = ours(*given, **named)
    label = f"{name} {shapes} {named or ''} {len(found)}"
    found[label] = distance(got, theirs(*doubled(given), **named))
    if kernels.taken() != by_kernel:
        found[label + (": no kernel ran" if by_kernel else ": a kernel ran")] = float("inf")


@check
def products() -> dict[str, float]:
    from bottega.compiler.library.triton import matmul

    matmul.PRODUCT_LEAST = matmul.PRODUCT_NARROWEST = 1  # the rule of which pays is about speed

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    for rows, columns, depth in ((33, 47, 48), (64, 64, 64), (129, 65, 37)):
        for left in (rand(rows, depth), rand(depth, rows).t(), rand(rows, 2 * depth)[:, ::2]):
            for right in (rand(depth, columns), rand(columns, depth).t()):
                compare(found, "product", matmul.matrix_product, torch.matmul, left, right, kernels=kernels)
    for left, right in (
        (rand(5, 3, 40, 48), rand(5, 3, 48, 33)),
        (rand(3, 40, 48), rand(48, 33)),
        (rand(40, 48), rand(2, 48, 33)),
        (rand(70, 600), rand(66, 600).t()),
        (rand(70, 608), rand(608, 48)),
        (rand(5, 1, 40, 48), rand(3, 48, 33)),
        (rand(2, 1, 3, 33, 32), rand(2, 1, 32, 32)),
        (rand(2, 33, 3, 32).transpose(1, 2), rand(2, 3, 40, 32).mT),
    ):
        compare(found, "product", matmul.matrix_product, torch.matmul, left, right, kernels=kernels)
    batched = (
        (rand(2, 3, 40, 48), rand(48, 48)),
        (rand(3, 40, 32), rand(3, 32, 48)),
        (rand(48, 40, 2).permute(2, 1, 0), rand(48, 32)),
    )
    for left, right in (*batched, (rand(256, 260), rand(260, 257))):
        compare(found, "matmul", matmul.matmul, torch.matmul, left, right, kernels=kernels)
    for left, right in (
        (rand(40, 32), rand(32, 2)),
        (rand(5), rand(5)),
        (rand(2, 3, 5), rand(5)),
        (rand(33, 50), rand(50, 33)),
    ):
        compare(found, "matmul", matmul.matmul, torch.matmul, left, right, kernels=kernels, by_kernel=False)
    compare(found, "mm", matmul.mm, torch.mm, rand(40, 32), rand(32, 48), kernels=kernels)
    compare(found, "bmm", matmul.bmm, torch.bmm, rand(2, 40, 32), rand(2, 48, 32).mT, kernels=kernels)
    compare(found, "linear", matmul.linear, F.linear, rand(3, 11, 608), rand(65, 608), rand(65), kernels=kernels)
    compare(
        found, "linear", matmul.linear, F.linear, rand(40, 33).t(), rand(48, 64).t()[:40].t(), kernels=kernels, by_kernel=False
    )
    compare(found, "linear", matmul.linear, F.linear, rand(32, 40).t(), rand(32, 48).t(), rand(48), kernels=kernels)
    compare(found, "linear", matmul.linear, F.linear, rand(32), rand(48, 32), kernels=kernels, by_kernel=False)
    return found


@check
def vectors() -> dict[str, float]:
    from bottega.compiler.library.triton import matmul

    matmul.PRODUCT_LEAST = matmul.PRODUCT_NARROWEST = 1  # the rule of which pays is about speed

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    for rows, depth in ((3, 5), (5, 4500), (200, 130)):
        for matrix in (rand(rows, depth), rand(depth, rows).t()):
            compare(found, "matvec", matmul.matvec, torch.mv, matrix, rand(depth), kernels=kernels)
    matmul.MATVEC_LEAST = 1
    for left, right in (
        (rand(3, 40), rand(40)),
        (rand(3, 4, 1601), rand(1601, 1)),
        (rand(50), rand(50, 33)),
        (rand(1, 33), rand(33, 300)),
        (rand(1601, 5).t(), rand(1601, 1)),
    ):
        compare(found, "matmul", matmul.matmul, torch.matmul, left, right, kernels=kernels)
    return found


@check
def einsums() -> dict[str, float]:
    from bottega.compiler.library.triton import matmul

    matmul.PRODUCT_LEAST = matmul.PRODUCT_NARROWEST = 1  # the rule of which pays is about speed

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    by_kernel = {
        "bijl,lk->bijk": (rand(2, 3, 12, 32), rand(32, 48)),
        "bhid,bhjd->bhij": (rand(2, 2, 33, 32), rand(2, 2, 48, 32)),
        "ik, kj -> ji": (rand(33, 32), rand(32, 48)),
        "abc,cbd->ad": (rand(40, 4, 8), rand(8, 4, 48)),
        "kj,ak": (rand(32, 33), rand(48, 32)),
    }
    by_torch = {
        "...i,ij->...j": (rand(33, 32), rand(32, 48)),
        "ij,kl->ijkl": (rand(2, 3), rand(4, 5)),
        "ij,jk->k": (rand(33, 32), rand(32, 48)),
        "ii,ij->ij": (rand(33, 33), rand(33, 48)),
        "ij,ij->ij": (rand(33, 33), rand(33, 33)),
    }
    for cases, taken in ((by_kernel, True), (by_torch, False)):
        for equation, pair in cases.items():
            compare(found, "einsum", matmul.einsum, torch.einsum, equation, *pair, kernels=kernels, by_kernel=taken)
    return found


@check
def convolutions() -> dict[str, float]:
    from bottega.compiler.library.triton import convolution

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    cases: list[tuple[str, tuple[int, ...], tuple[int, ...], bool, dict[str, Any], bool]] = [
        ("conv2d", (2, 16, 7, 6), (17, 16, 3, 3), True, {}, True),
        ("conv2d", (2, 40, 7, 9), (20, 40, 3, 5), True, {"stride": (2, 1), "padding": (1, 3), "dilation": (1, 2)}, True),
        ("conv2d", (3, 33, 5, 4), (16, 33, 1, 1), False, {}, True),
        ("conv2d", (2, 32, 16, 16), (20, 32, 1, 1), True, {}, True),
        ("conv2d", (2, 16, 17, 16), (20, 16, 1, 1), True, {"stride": (2,)}, True),
        ("conv2d", (2, 3, 15, 13), (16, 3, 5, 7), True, {"stride": 2, "padding": 3}, True),
        ("conv2d", (2, 1, 9, 9), (18, 1, 5, 5), False, {"dilation": 2}, True),
        ("conv2d", (2, 128, 5, 5), (70, 128, 3, 3), True, {"padding": 1}, True),
        ("conv2d", (2, 3, 9, 10), (3, 1, 3, 3), True, {"padding": 1, "groups": 3}, True),
        (
            "conv2d",
            (2, 3, 9, 20),
            (6, 1, 3, 5),
            False,
            {"stride": (1, 2), "dilation": (2, 1), "padding": (0, 2), "groups": 3},
            False,
        ),
        ("conv2d", (1, 16, 6, 6), (16, 16, 4, 4), True, {"padding": "same"}, True),
        ("conv2d", (1, 16, 6, 7), (17, 16, 3, 2), False, {"padding": "same", "dilation": (2, 3)}, True),
        ("conv2d", (1, 16, 6, 7), (17, 16, 3, 2), True, {"padding": "valid", "stride": 2}, True),
        ("conv2d", (1, 32, 6, 6), (32, 16, 3, 3), True, {"groups": 2}, True),
        ("conv2d", (2, 54, 7, 9), (51, 18, 3, 3), True, {"groups": 3, "stride": 2, "padding": 1}, True),
        ("conv2d", (1, 20, 7, 9), (18, 10, 2, 3), False, {"groups": 2, "dilation": 2}, True),
        ("conv2d", (1, 128, 5, 5), (36, 64, 3, 3), True, {"groups": 2}, True),
        ("conv2d", (1, 32, 6, 6), (32, 4, 3, 3), True, {"groups": 8}, False),
        ("conv2d", (16, 5, 5), (32, 16, 3, 3), True, {}, True),
        ("conv1d", (2, 16, 20), (20, 8, 5), True, {"groups": 2, "stride": 3, "padding": 2}, True),
        ("conv3d", (1, 18, 4, 3, 5), (16, 9, 2, 3, 3), True, {"groups": 2, "padding": 1}, True),
        ("conv1d", (2, 16, 11), (32, 16, 5), True, {"stride": 2, "padding": 2}, True),
        ("conv1d", (2, 17, 19), (32, 17, 3), False, {"dilation": 3}, True),
        ("conv1d", (1, 3, 700), (16, 3, 8), True, {"stride": 4}, True),
        ("conv1d", (1, 3, 1500), (3, 1, 7), True, {"padding": 3, "groups": 3}, True),
        ("conv3d", (2, 32, 4, 5, 3), (33, 32, 3, 2, 1), True, {"stride": (1, 2, 1), "padding": (1, 0, 1)}, True),
        ("conv3d", (1, 32, 3, 5, 4), (32, 32, 2, 3, 3), False, {"padding": 1, "dilation": (2, 1, 1)}, True),
        ("conv3d", (1, 3, 4, 4, 4), (16, 3, 3, 3, 3), True, {}, False),
        ("conv3d", (1, 4, 4, 4, 4), (4, 1, 3, 3, 3), True, {"groups": 4}, True),
        ("conv3d", (2, 3, 4, 5, 6), (6, 1, 2, 3, 3), False, {"groups": 3, "stride": (1, 2, 1), "padding": (0, 1, 2)}, False),
        ("conv3d", (1, 2, 5, 4, 4), (2, 1, 3, 3, 3), True, {"groups": 2, "padding": 2, "dilation": (2, 1, 1)}, True),
    ]
    for name, shape, weight, bias, options, taken in cases:
        x = rand(shape).mT.contiguous().mT
        given = x, rand(weight), rand(weight[0]) if bias else None
        compare(found, name, getattr(convolution, name), getattr(F, name), *given, kernels=kernels, by_kernel=taken, **options)
        if not taken:  # by the rule; who asks for the kernel gets it
            asked = partial(getattr(convolution, name), own=True)
            compare(found, f"{name} asked for", asked, getattr(F, name), *given, kernels=kernels, **options)
    return found


@check
def transposed() -> dict[str, float]:
    from bottega.compiler.library.triton import transposed_convolution

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    cases: list[tuple[str, tuple[int, ...], tuple[int, ...], bool, dict[str, Any], bool]] = [
        ("conv_transpose2d", (2, 16, 4, 3), (16, 16, 2, 2), True, {"stride": 2}, True),
        ("conv_transpose2d", (2, 17, 4, 3), (17, 16, 4, 4), True, {"stride": 2, "padding": 1}, True),
        ("conv_transpose2d", (1, 16, 4, 5), (16, 18, 3, 3), False, {"stride": 2, "padding": 1, "output_padding": 1}, True),
        ("conv_transpose2d", (1, 16, 4, 5), (16, 16, 3, 3), True, {"padding": 1}, True),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 16, 5, 3), True, {"stride": 3, "padding": (2, 0)}, True),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 16, 3, 3), True, {"stride": (2, 1), "padding": 1, "dilation": (1, 2)}, True),
        ("conv_transpose2d", (1, 16, 9, 9), (16, 16, 1, 1), True, {"stride": 2, "padding": 1}, True),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 16, 3, 3), True, {"stride": 2, "dilation": 2}, True),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 16, 3, 3), True, {"stride": 2, "dilation": 3}, False),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 8, 3, 3), True, {"stride": 2, "groups": 2}, True),
        ("conv_transpose2d", (1, 34, 4, 3), (34, 17, 3, 3), True, {"stride": 2, "groups": 2}, True),
        ("conv_transpose2d", (1, 16, 3, 4), (16, 4, 3, 3), True, {"stride": 2, "groups": 2}, False),
        ("conv_transpose2d", (16, 3, 4), (16, 16, 3, 3), True, {"stride": 2}, True),
        ("conv_transpose1d", (2, 17, 9), (17, 20, 5), True, {"stride": 3, "padding": 2, "output_padding": 2}, True),
        ("conv_transpose1d", (2, 16, 9), (16, 16, 4), False, {"dilation": 3, "padding": 1}, True),
        ("conv_transpose3d", (1, 16, 3, 2, 3), (16, 17, 3, 4, 2), True, {"stride": (2, 1, 3), "padding": (1, 0, 1)}, True),
        ("conv_transpose3d", (1, 8, 3, 2, 3), (8, 17, 3, 4, 2), True, {}, False),
    ]
    for name, shape, weight, bias, options, taken in cases:
        given = rand(shape), rand(weight), rand(weight[1] * options.get("groups", 1)) if bias else None
        ours = getattr(transposed_convolution, name)
        compare(found, name, ours, getattr(F, name), *given, kernels=kernels, by_kernel=taken, **options)
    return found


@check
def attentions() -> dict[str, float]:
    from bottega.compiler.library.triton import attention

    found: dict[str, float] = {}
    kernels, rand = Kernels(), torch.randn
    ours, theirs = attention.scaled_dot_product_attention, F.scaled_dot_product_attention
    square = rand(2, 3, 40, 20), rand(2, 3, 70, 20), rand(2, 3, 70, 33)
    hidden = torch.rand(40, 70) > 0.5
    hidden[3] = False
    for mask in (None, hidden, rand(2, 1, 40, 70), hidden[None, None, :1].expand(2, 1, 40, 70)):
        compare(found, "attention", ours, theirs, *square, mask, kernels=kernels)
    turned = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in square)
    compare(found, "attention", ours, theirs, *turned, kernels=kernels, is_causal=True, scale=0.3)
    compare(
        found, "attention", ours, theirs, rand(2, 100, 64), rand(2, 90, 64), rand(2, 90, 64), kernels=kernels, is_causal=True
    )
    shared = rand(1, 6, 33, 16), rand(1, 2, 20, 16), rand(1, 2, 20, 16)
    compare(found, "attention", ours, theirs, *shared, kernels=kernels, enable_gqa=True)
    wide = rand(1, 2, 65, 64), rand(1, 2, 65, 64), rand(1, 2, 65, 64)
    compare(found, "attention", ours, theirs, *wide, kernels=kernels)
    small = rand(1, 2, 20, 8), rand(1, 2, 20, 8), rand(1, 2, 20, 8)
    compare(found, "attention", ours, theirs, *small, kernels=kernels, by_kernel=False)
    return found


@check
def layers() -> dict[str, float]:
    from bottega.compiler.library.triton import layers as library_layers

    found: dict[str, float] = {}
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
        ("Linear", (48, 33), {}, (40, 48)),
        ("Conv1d", (16, 17, 3, 2), {}, (2, 16, 9)),
        ("Conv2d", (16, 17, 3), {"padding": 1}, (2, 16, 5, 6)),
        ("Conv2d", (16, 17, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 16, 5, 6)),
        ("Conv2d", (16, 16, 3), {"padding": "same", "bias": False}, (2, 16, 5, 6)),
        ("Conv3d", (32, 32, 2), {}, (1, 32, 3, 3, 3)),
        ("ConvTranspose2d", (16, 16, 3, 2, 1, 1), {}, (2, 16, 3, 4)),
        ("BatchNorm2d", (5,), {}, (3, 5, 4, 7)),
        ("BatchNorm2d", (5,), {"momentum": None}, (3, 5, 4, 7)),
        ("BatchNorm2d", (5,), {"track_running_stats": False, "affine": False}, (3, 5, 4, 7)),
        ("GroupNorm", (4, 16), {}, (2, 16, 3, 5)),
    ]
    for kind, arguments, options, shape in cases:
        mine, theirs = getattr(library_layers, kind)(*arguments, **options), getattr(nn, kind)(*arguments, **options)
        theirs.load_state_dict(mine.state_dict())
        theirs.double()
        for training in (True, True, False):
            mine.train(training), theirs.train(training)
            x = torch.randn(shape) * 2 + 3
            label = f"{kind}{arguments} {options} training={training}"
            found[label] = distance(mine(x), theirs(x.double()))
            for (name, kept), wanted in zip(mine.state_dict().items(), theirs.state_dict().values()):
                found[f"{label} {name}"] = max(found.get(f"{label} {name}", 0.0), distance(kept.float(), wanted))
    return found


@check
def gradients() -> dict[str, float]:
    """What wants a gradient is torch's, and gets one."""
    from bottega.compiler.library.triton import matmul

    matmul.PRODUCT_LEAST = matmul.PRODUCT_NARROWEST = 1  # the rule of which pays is about speed

    weight = torch.randn(48, 64, requires_grad=True)
    with torch.enable_grad():
        matmul.linear(torch.randn(40, 64), weight).sum().backward()
    return {"linear": 0.0 if weight.grad is not None else float("inf")}


@pytest.mark.slow
def test_parts_compute_what_torch_does_and_run_kernels_where_they_should() -> None:
    from triton_process import interpreted

    found = interpreted(__file__, *CHECKS)
    assert len(found) > 100
    assert {name: error for name, error in found.items() if not error < LIMIT} == {}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        print(json.dumps({f"{name}: {case}": error for name in sys.argv[1:] for case, error in CHECKS[name]().items()}))
