from __future__ import annotations

import re

import pytest
from modules_in_cpp import QUICK, module

from bottega.compiler.backends.cuda.passes import PASSES
from bottega.compiler.backends.cuda.write import write
from bottega.compiler.build_step import Refusal
from bottega.compiler.step_compiler import lower_task
from bottega.core.task import Task

FUSED = frozenset({"fuse_elementwise", "fuse_rows", "fuse_windows"})


def _written(source: str, techniques: frozenset[str]) -> str:
    understood = lower_task(Task(source, "module"), with_library=False)
    return write(understood.plan(techniques), understood.frame, techniques)


def test_rows_get_a_block_or_a_warp_and_dense_maps_float4() -> None:
    softmax = module("F.softmax(x, dim=-1)", "torch.randn(40, 333)")
    assert "block_sum(total)" in _written(softmax, FUSED)
    assert "warp_sum(total)" in _written(softmax, FUSED | {"warp_per_row"})
    assert "float4" in _written(module("F.gelu(x) * 2", "torch.randn(64, 64)"), FUSED | {"vector_loads"})


def test_a_scan_by_blocks_walks_tiles_with_a_carry() -> None:
    text = _written(module("torch.cumsum(x, dim=-1)", "torch.randn(5, 133)"), FUSED | {"block_scan"})
    assert "block_scan(value, total)" in text and "carry += total;" in text


def test_products_of_our_own_are_refused() -> None:
    with pytest.raises(Refusal, match="not written in CUDA"):
        _written(QUICK["linear"], FUSED | {"own_product"})


def test_no_kernel_is_named_as_a_function_of_cudas_may_be() -> None:
    text = _written(module("x.sum() + torch.linalg.norm(x), x.max(), x.isnan()", "torch.randn(40, 3)"), frozenset())
    names = re.findall(r"__global__ void (\w+)\(", text)
    assert len(names) > 3 and all("_" in name for name in names)
    assert "isnan(x[i])" in text


def test_techniques_have_distinct_names() -> None:
    assert len({technique.name for technique in PASSES}) == len(PASSES)
