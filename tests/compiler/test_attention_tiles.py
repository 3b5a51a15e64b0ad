"""Attention tiles fit the shared memory of a block, and what we take the compiler to need is what it needs."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import task

from bottega.compiler.backends.triton import write
from bottega.compiler.backends.triton.attention import shared_bytes, tile_of
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.choices import SHARED_BYTES
from bottega.compiler.kernel import Attention
from bottega.compiler.step_compiler import lower_task
from bottega.core.task import Task


def attention(width: int, dtype: str, *techniques: str, mask: str = "") -> tuple[FileWriter, Attention]:
    operand = f"torch.randn(1, 2, 1024, {width}, dtype=torch.{dtype})"
    hidden = f", torch.randn(1024, 1024, dtype=torch.{dtype})" if mask else ""
    forward = f"return F.scaled_dot_product_attention(x, y, z{', attn_mask=m' if mask else ''})"
    given = task("attend", forward, f"{operand}, {operand}, {operand}{hidden}", arguments=f"x, y, z{mask}")
    chosen = frozenset(("own_attention", *techniques))
    plan = lower_task(given).plan(chosen)
    (kernel,) = plan.kernels
    assert isinstance(kernel, Attention)
    return FileWriter(plan, chosen), kernel


@pytest.mark.parametrize("techniques", [(), ("tf32x3",), ("tf32x3", "tuned_tiles")])
@pytest.mark.parametrize(("width", "dtype"), [(64, "float32"), (192, "float32"), (256, "float32"), (256, "float16")])
def test_tiles_fit(width: int, dtype: str, techniques: tuple[str, ...]) -> None:
    for mask in ("", ", m"):
        page, kernel = attention(width, dtype, *techniques, mask=mask)
        assert shared_bytes(page, kernel, tile_of(page, kernel)) <= SHARED_BYTES


def test_a_narrow_head_keeps_its_tile() -> None:
    assert tile_of(*attention(128, "float32", "tf32x3", "tuned_tiles")) == (64, 32, 4, 2)


def test_a_wide_head_would_not_fit_as_it_is() -> None:
    assert (
        shared_bytes(*attention(200, "float32", "tf32x3", "tuned_tiles"), (64, 32, 4, 2)) == 262144
    )  # what an H200 said of 192 in one block


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "techniques"), [("float32", ()), ("float32", ("tf32x3", "tuned_tiles")), ("float16", ())])
def test_the_compiler_needs_what_we_reckon(dtype: str, techniques: tuple[str, ...], tmp_path: Path, monkeypatch: Any) -> None:
    triton = pytest.importorskip("triton")
    page, kernel = attention(192, dtype, *techniques)
    arguments = ", ".join(page.plan.inputs)
    path = tmp_path / "candidate.py"
    path.write_text(write(page.plan, lower_task(_plain(arguments)).frame, page.passes))
    spec = spec_from_file_location("candidate", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[int] = []
    monkeypatch.setattr(triton.runtime.jit.JITFunction, "run", lambda *given, **named: found.append(_shared(*given, **named)))
    module.ModelNew()(*(torch.empty(1, 2, 1024, 192, dtype=getattr(torch, dtype), device="meta") for _ in range(3)))
    assert found == [shared_bytes(page, kernel, tile_of(page, kernel))]


def _plain(arguments: str) -> Task:
    return task("attend", "return x", ", ".join(["torch.randn(2, 2)"] * 3), arguments=arguments)


def _shared(function: Any, *given: Any, grid: Any, warmup: bool, num_warps: int = 4, num_stages: int = 3, **named: Any) -> int:
    """Bytes of shared memory that a launch would take on Hopper, without one: the compiler alone says so."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    values = {**dict(zip((parameter.name for parameter in function.params), given)), **named}
    kinds = {torch.float32: "*fp32", torch.float16: "*fp16", int: "i32", float: "fp32"}
    signature, constants, even = {}, {}, {}
    for place, parameter in enumerate(function.params):
        value = values[parameter.name]
        signature[parameter.name] = "constexpr" if parameter.is_constexpr else kinds[getattr(value, "dtype", type(value))]
        if parameter.is_constexpr:
            constants[(place,)] = value
        elif not isinstance(value, float):
            even[(place,)] = [["tt.divisibility", 16]]
    options = {"num_warps": num_warps, "num_stages": num_stages}
    made = compile(ASTSource(function, signature, constants, even), target=GPUTarget("cuda", 90, 32), options=options)
    return int(made.metadata.shared)
