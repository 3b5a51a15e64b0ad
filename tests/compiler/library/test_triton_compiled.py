"""What the interpreter accepts the compiler need not: kernels of lone operators, at the benchmark's sizes, compiled for Hopper without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow
pytest.importorskip("triton", reason="the parts need Triton")

LARGEST_SHARED = 232448
KINDS = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int64: "*i64", torch.int32: "*i32"}


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def halves(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.bfloat16)


CASES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "bmm_irregular": ("matmul", "product_kernel", lambda p: p.bmm(empty(90, 387, 517), empty(90, 517, 301))),
    "conv2d_grouped_strided": (
        "convolution",
        "conv_kernel",
        lambda p: p.conv2d(empty(40, 128, 96, 96), empty(256, 16, 3, 3), empty(256), 2, 1, 1, 8),
    ),
    "depthwise": (
        "convolution",
        "depthwise_kernel",
        lambda p: p.conv3d(empty(2, 32, 16, 56, 56), empty(32, 1, 3, 3, 3), None, 1, 1, 1, 32),
    ),
    "conv_transpose3d_grouped": (
        "transposed_convolution",
        "conv_kernel",
        lambda p: p.conv_transpose3d(empty(16, 48, 16, 32, 28), empty(48, 6, 4, 4, 4), None, 2, 1, 0, 4),
    ),
    "cross_entropy_smoothed": (
        "cross_entropy",
        "cross_entropy_kernel",
        lambda p: p.cross_entropy(empty(12000, 4001), empty(12000, dtype=torch.int64), label_smoothing=0.1),
    ),
    "cross_entropy over planes": (
        "cross_entropy",
        "cross_entropy_columns_kernel",
        lambda p: p.cross_entropy(
            empty(8, 19, 512, 512), empty(8, 512, 512, dtype=torch.int64), empty(19), label_smoothing=0.1
        ),
    ),
    "matmul_b_transposed_bf16": ("matmul", "product_kernel", lambda p: p.matmul(halves(640, 65536), halves(384, 65536).t())),
    "matmul_rank24_update": ("matmul", "product_kernel", lambda p: p.matmul(empty(6144, 24), empty(24, 8704))),
    "matmul_tall_skinny": ("matmul", "product_kernel", lambda p: p.mm(empty(131072, 256), empty(256, 40))),
    "wide attention": (
        "attention",
        "attention_kernel",
        lambda p: p.scaled_dot_product_attention(*(empty(2, 8, 512, 256) for _ in range(3))),
    ),
    "heads of 96": (
        "attention",
        "attention_kernel",
        lambda p: p.scaled_dot_product_attention(*(empty(24, 24, 1024, 96) for _ in range(3))),
    ),
    "matrix by vector": ("matmul", "matvec_kernel", lambda p: p.matmul(empty(4096, 70000), empty(70000))),
    "softmax of rows": ("softmax", "softmax_held_kernel", lambda p: p.softmax(empty(4096, 1000), 1)),
    "softmax of long rows": ("softmax", "softmax_long_kernel", lambda p: p.softmax(empty(4096, 40000), 1)),
    "softmax of few rows": ("softmax", "softmax_join_kernel", lambda p: p.softmax(empty(4, 400000), 1)),
    "softmax of columns": ("softmax", "softmax_columns_kernel", lambda p: p.softmax(empty(16, 1000, 500), 1)),
    "cumsum of rows": ("scan", "scan_rows_kernel", lambda p: p.cumsum(empty(4096, 4000), 1)),
    "cumprod of columns": ("scan", "scan_columns_kernel", lambda p: p.cumprod(empty(16, 1000, 500), 1)),
    "argmax": ("extremes", "extreme_join_kernel", lambda p: p.argmax(empty(400, 70000))),
    "argmin of columns": ("extremes", "extreme_columns_kernel", lambda p: p.argmin(empty(16, 1000, 500), 1)),
    "layer_norm": ("normalisation", "norm_held_kernel", lambda p: p.layer_norm(empty(4096, 1000), (1000,), empty(1000))),
    "group_norm": ("normalisation", "norm_apply_kernel", lambda p: p.group_norm(empty(8, 64, 128, 128), 8, empty(64))),
    "batch_norm": (
        "normalisation",
        "norm_moments_kernel",
        lambda p: p.batch_norm(empty(8, 64, 60, 60), empty(64), empty(64), training=True),
    ),
    "batch_norm of columns": (
        "normalisation",
        "norm_columns_kernel",
        lambda p: p.batch_norm(empty(800, 640), empty(640), empty(640), training=True),
    ),
    "pool": ("pooling", "pool_kernel", lambda p: p.max_pool2d(empty(16, 8, 100, 100), 3, 2, 1)),
    "pool of short planes": ("pooling", "pool_kernel", lambda p: p.avg_pool1d(empty(1600, 8, 20), 3, 2)),
    "mean of planes": ("pooling", "pool_mean_kernel", lambda p: p.adaptive_avg_pool2d(empty(16, 8, 300, 300), 1)),
}


@pytest.mark.parametrize("large", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("name", CASES)
def test_kernels_of_lone_operators_compile_and_fit(name: str, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    from triton.runtime.jit import JITFunction

    file, kernel, call = CASES[name]
    part, tiles = (import_module(f"bottega.compiler.library.triton.{one}") for one in (file, "tiles"))
    monkeypatch.setattr(tiles, "ALONE", True)
    monkeypatch.setattr(part, "ALONE", True, raising=False)
    monkeypatch.setattr(import_module("bottega.compiler.library.triton.matmul"), "ALONE", True)
    if large:
        monkeypatch.setattr(import_module("bottega.compiler.library.triton.large"), "INDEX_LIMIT", 0)
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # tensors of no device are taken; the kernels were read before
    shared: dict[str, int] = {}
    monkeypatch.setattr(JITFunction, "run", lambda *given, **named: shared.update(compiled(*given, **named)))
    with torch.no_grad():
        call(part)
    assert kernel in shared and max(shared.values()) <= LARGEST_SHARED


def compiled(function: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> dict[str, int]:
    """The kernel's name and the shared memory that it takes on Hopper, as a launch would compile it."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    options = {option: named.pop(option) for option in ("num_warps", "num_stages") if option in named}
    values = {**dict(zip((parameter.name for parameter in function.params), given)), **named}
    signature, constants, even = {}, {}, {}
    for place, parameter in enumerate(function.params):
        value = values[parameter.name]
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
            signature[parameter.name], constants[(place,)] = "constexpr", value
            continue
        signature[parameter.name] = (
            KINDS[value.dtype]
            if isinstance(value, torch.Tensor)
            else f"i{32 if value < 2**31 else 64}"
            if type(value) is int
            else "fp32"
        )
        if isinstance(value, torch.Tensor) or (type(value) is int and value % 16 == 0):
            even[(place,)] = [["tt.divisibility", 16]]
    made = compile(ASTSource(function, signature, constants, even), target=GPUTarget("cuda", 90, 32), options=options)
    return {function.__name__: int(made.metadata.shared)}
