"""A lone operator runs by a kernel of ours whatever its shape, so that no file holds kernels that never run.

By Triton's interpreter, in a process of its own: this file, started as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

LIMIT = 5e-6
HALVES = 1e-3
"""Halves are compared before they are rounded."""
LONE: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "bmm_irregular": ("bmm", [(3, 19, 37), (3, 37, 21)], {}),
    "conv2d_grouped_strided": ("conv2d", [(2, 16, 7, 6), (12, 4, 3, 3), (12,)], {"stride": 2, "padding": 1, "groups": 4}),
    "conv_transpose3d_grouped": (
        "conv_transpose3d",
        [(1, 8, 2, 3, 4), (8, 3, 4, 4, 4)],
        {"stride": 2, "padding": 1, "groups": 4},
    ),
    "cross_entropy_smoothed": ("cross_entropy", [(9, 31)], {"target": torch.arange(9), "label_smoothing": 0.1}),
    "matmul_b_transposed": ("linear", [(20, 65), (10, 65)], {}),
    "matmul_rank24_update": ("mm", [(70, 24), (24, 90)], {}),
    "matmul_tall_skinny": ("mm", [(300, 64), (64, 5)], {}),
    "softmax of few long columns": ("softmax", [(1030, 3)], {"dim": 0}),
    "cumsum of few long columns": ("cumsum", [(1030, 3)], {"dim": 0}),
    "batch norm of many short rows": ("batch_norm", [(4100, 3)], {"running_mean": None, "running_var": None, "training": True}),
    "in place": ("relu", [(5, 7)], {"inplace": True}),
    "large window": ("avg_pool1d", [(1, 2, 90)], {"kernel_size": 70}),
    "narrow attention": ("scaled_dot_product_attention", [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)], {}),
    "attention in pieces": ("scaled_dot_product_attention", [(1, 2, 5, 72), (1, 2, 7, 72), (1, 2, 7, 80)], {"is_causal": True}),
    "heads of 96": ("scaled_dot_product_attention", [(1, 1, 18, 96), (1, 1, 33, 96), (1, 1, 33, 96)], {}),
    "wide attention": ("scaled_dot_product_attention", [(1, 1, 5, 130), (1, 1, 7, 130), (1, 1, 7, 20)], {}),
}
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]
PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((33, 5), (5, 7)),
    ((40, 32), (32, 2)),
    ((5,), (5,)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((1, 9), (9, 70)),
    ((2, 9, 4), (2, 4, 1)),
    ((4, 1, 9, 7), (3, 7, 17)),
    ((20, 1100), (1100, 20)),
]
CONVOLUTIONS: dict[str, list[Case]] = {
    "conv1d": [((2, 6, 20), (4, 3, 5), {"groups": 2, "stride": 3, "padding": 2}), ((1, 3, 80), (3, 1, 70), {"groups": 3})],
    "conv2d": [
        ((2, 6, 7, 6), (9, 2, 3, 3), {"groups": 3, "dilation": 2}),
        ((1, 40, 5, 5), (36, 20, 3, 3), {"groups": 2}),
        ((1, 2, 5, 5), (3, 2, 1, 1), {}),
        ((5, 6, 7), (3, 5, 4, 3), {"padding": "same"}),
    ],
    "conv3d": [((1, 3, 4, 4, 4), (5, 3, 3, 3, 3), {}), ((2, 6, 4, 5, 3), (4, 3, 3, 2, 3), {"groups": 2, "padding": 1})],
}
TRANSPOSED: dict[str, list[Case]] = {
    "conv_transpose1d": [
        ((2, 4, 9), (4, 3, 4), {"stride": 2, "dilation": 2, "padding": 1}),
        ((2, 4, 1), (4, 2, 1), {"stride": 4, "dilation": 4, "groups": 2}),
    ],
    "conv_transpose2d": [
        ((1, 5, 4, 3), (5, 3, 3, 4), {"stride": (2, 3), "dilation": (2, 1), "padding": (1, 2), "output_padding": (1, 0)}),
        ((1, 5, 4, 3), (5, 3, 3, 4), {"stride": (4, 3), "dilation": 2, "padding": (3, 2)}),
        (
            (1, 6, 4, 3),
            (6, 3, 3, 4),
            {"stride": (2, 3), "dilation": (3, 6), "padding": (5, 2), "groups": 3, "output_padding": (2, 5)},
        ),
        ((6, 4, 3), (6, 3, 3, 4), {"stride": 2}),
    ],
    "conv_transpose3d": [
        ((1, 4, 3, 2, 2), (4, 3, 3, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}),
        ((2, 4, 2, 3, 2), (4, 1, 3, 3, 3), {"stride": 2, "padding": 1, "groups": 4, "output_padding": 1}),
    ],
}


def theirs(name: str) -> Any:
    return getattr(F, name, None) or getattr(torch, name)


def answer(name: str, call: str = "{}(*given, **named)") -> str:
    return f"def f(*given, **named):\n    return {call.format(name)}\n"


def opened(source: str) -> Any:
    """As a module from a file: Triton reads its kernels from there."""
    from bottega.compiler.library.insert import with_library_functions

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.py"
        path.write_text(with_library_functions(source, frozenset()))
        spec = spec_from_file_location("answer", path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def files(found: dict[str, float], kernels: Any) -> None:
    from test_triton_matmul import compare

    for label, (name, shapes, named) in LONE.items():
        given = [torch.randn(shape) for shape in shapes]
        compare(found, label, opened(answer(name)).f, theirs(name), *given, kernels=kernels, **named)
    given = [torch.randn(300, 64), torch.randn(64, 5)]
    twice = opened(answer("mm", "({}(*given), mm(*given))[1]"))
    compare(found, "one of two parts is not alone", twice.f, torch.mm, *given, kernels=kernels, by_kernel=False)


def shapes(found: dict[str, float], kernels: Any) -> None:
    from test_triton_matmul import compare

    from bottega.compiler.library.triton import convolution, matmul, tiles, transposed_convolution

    for module in (convolution, matmul, tiles, transposed_convolution):
        module.ALONE = True  # type: ignore[attr-defined]
    rand = torch.randn
    for left, right in PRODUCTS:
        compare(found, "matmul", matmul.matmul, torch.matmul, rand(left), rand(right), kernels=kernels)
    spread = rand(14, 10)[::2, ::2]
    compare(found, "matmul", matmul.matmul, torch.matmul, rand(7), spread, kernels=kernels)
    compare(found, "matmul", matmul.matmul, torch.matmul, spread, rand(5), kernels=kernels)
    compare(found, "linear", matmul.linear, F.linear, rand(33), rand(5, 33), rand(5), kernels=kernels)
    compare(found, "einsum", matmul.einsum, torch.einsum, "bi,bj->bij", rand(3, 5), rand(3, 7), kernels=kernels)
    for name, cases in (CONVOLUTIONS | TRANSPOSED).items():
        ours = getattr(transposed_convolution if name in TRANSPOSED else convolution, name)
        for x, weight, options in cases:
            width = weight[1] * options.get("groups", 1) if name in TRANSPOSED else weight[0]
            for bias in (rand(width), None):
                compare(found, name, ours, getattr(F, name), rand(x), rand(weight), bias, kernels=kernels, **options)


def halves(found: dict[str, float], kernels: Any) -> None:
    """In float16: the interpreter multiplies no bfloat16."""
    from bottega.compiler.library.triton import attention, convolution, matmul, tiles, transposed_convolution

    for module in (attention, convolution, matmul, tiles, transposed_convolution):
        module.ALONE = True  # type: ignore[attr-defined]
    cases: list[tuple[Any, str, list[tuple[int, ...]], dict[str, Any]]] = [
        (matmul, "matmul", [(33, 50), (50, 70)], {}),
        (matmul, "matmul", [(2, 20, 64), (2, 64, 96)], {}),
        (matmul, "matmul", [(40, 700), (700,)], {}),
        (matmul, "matmul", [(20, 1100), (1100, 20)], {}),
        (matmul, "linear", [(7, 64), (48, 64), (48,)], {}),
        (convolution, "conv2d", [(2, 18, 6, 6), (20, 18, 3, 3), (20,)], {}),
        (convolution, "conv2d", [(2, 6, 6, 6), (6, 1, 3, 3), (6,)], {"groups": 6}),
        (transposed_convolution, "conv_transpose2d", [(2, 6, 5, 6), (6, 5, 3, 3), (5,)], {"stride": 2, "dilation": 2}),
        (attention, "scaled_dot_product_attention", [(1, 2, 20, 16), (1, 2, 9, 16), (1, 2, 9, 16), (20, 9)], {}),
    ]
    for module, name, sizes, options in cases:
        given = [torch.randn(size).half() for size in sizes]
        got, wanted = getattr(module, name)(*given, **options), theirs(name)(*(one.double() for one in given), **options)
        apart = (got.double() - wanted).pow(2).mean().sqrt() / wanted.pow(2).mean().sqrt()
        right = kernels.taken() and got.dtype == torch.float16 and got.shape == wanted.shape
        found[f"{name} {sizes} {options}"] = float(apart) * LIMIT / HALVES if right else float("inf")


CHECKS = {check.__name__: check for check in (files, shapes, halves)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_lone_operator_runs_by_a_kernel_of_ours(name: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__, name], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    assert found and {name: error for name, error in found.items() if not error < LIMIT} == {}


if __name__ == "__main__":
    from test_triton_matmul import Kernels

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    errors: dict[str, float] = {}
    with torch.no_grad():
        CHECKS[sys.argv[1]](errors, Kernels())
    print(json.dumps(errors))
