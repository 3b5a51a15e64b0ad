"""Kernels that the compiler writes for more than 2^31 elements: the usual text but for casts, in every step; small ones keep theirs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from small_tasks import SMALL
from test_triton_backend import judged, wrong
from triton_tasks import WIDE
from wide_tasks import LARGE

from bottega.compiler.backends.triton import kernel_writer
from bottega.compiler.backends.triton.width import INT32, in_64_bits, is_large
from bottega.compiler.build_step import Refusal
from bottega.compiler.step_compiler import StepCompiler
from bottega.compiler.view import Buffer
from bottega.core.task import Task

CAST = ".to(tl.int64)"
SOURCE = re.compile(r"tl\.(?:program_id|arange)\([^)]*\)(?!\.to\(tl\.int64\))")


def texts(task: Task) -> list[str]:
    steps = StepCompiler(every_product=True).build(task, "triton", without=("shelved_parts",)).steps
    return [step.candidate.source for step in steps]


def bare(source: str) -> str:
    """Without what 64 bits add: a place within a row goes back to 32."""
    return source.replace(CAST, "").replace("tl.int64", "tl.int32").replace("column.to(tl.int32)", "column")


def test_the_width_follows_the_largest_buffer() -> None:
    sizes = [(4096, 393216), (INT32 - 2**25,), (INT32 - 2**10,), (65536, 65536)]
    assert [is_large([Buffer("x", shape, "float32")]) for shape in sizes] == [False, False, True, True]
    assert not is_large([])


def test_program_ids_and_lanes_are_cast_and_nothing_else() -> None:
    line = "row = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] + tl.num_programs(1)"
    assert in_64_bits(line) == (
        "row = (tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM).to(tl.int64))[:, None] + tl.num_programs(1)"
    )
    assert in_64_bits("acc = tl.zeros((BM, BN), tl.float32)") == "acc = tl.zeros((BM, BN), tl.float32)"


@pytest.mark.rotates
@pytest.mark.parametrize("task", LARGE, ids=lambda task: task.name)
def test_large_kernels_are_the_usual_text_with_casts(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = texts(task)
    monkeypatch.setattr(kernel_writer, "is_large", lambda buffers: False)
    narrow = texts(task)
    assert any("tl.program_id" in text for text in wide)
    assert [bare(text) for text in wide] == [bare(text) for text in narrow]
    for text, other in zip(wide, narrow):
        large = [kernel for kernel in text.split("@triton.jit") if CAST in kernel]
        assert large and all(not SOURCE.search(kernel) for kernel in large)
        assert in_64_bits(other) != other


def test_a_place_far_into_a_buffer_is_a_number() -> None:
    half = next(task for task in LARGE if task.name == "half")
    assert all(str(4194312 * 1024 // 2) in text for text in texts(half) if "index_in_part" not in text)


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["chain", "layer_norm", "heads", "conv_strides", "pool_padded", "attend"])
def test_small_kernels_keep_32_bits(name: str) -> None:
    task = next(task for task in (*SMALL, *WIDE) if task.name == name)
    assert all("tl.int64" not in text for text in texts(task))


def test_wide_grids_count_along_their_first_axis() -> None:
    from small_tasks import task

    volume = task(
        "volume", "return self.conv(x)", "torch.randn(2, 4, 512, 512, 512)", "self.conv = nn.Conv3d(4, 4, 3, groups=4)"
    )
    text = texts(volume)[-1]
    assert "512), t1.shape[0] * t1.shape[1])" in text and "plane = tl.program_id(1)" in text
    pixels = task("pixels", "return x @ y", "torch.randn(64, 64), torch.randn(64, 8000000)", arguments="x, y")
    assert all("tl.program_id(1)" not in text for text in texts(pixels) if "tl.dot" in text)


@pytest.mark.slow
def test_forced_64_bits_compute_what_the_module_does() -> None:
    names = ("slices", "statistics", "first_of_equals", "heads", "conv_strides", "conv_depthwise", "pool_padded", "attend")
    found = judged("tight-large", names)
    assert wrong(found) == []
    assert all(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("task", LARGE, ids=lambda task: task.name)
def test_large_kernels_compile(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For Hopper, without one."""
    import torch

    sys.path.insert(0, str(Path(__file__).parent / "library"))
    from test_triton_compiled import compiled
    from triton.runtime.jit import JITFunction
    from triton_interpreted import loaded

    made: dict[str, int] = {}
    monkeypatch.setattr(JITFunction, "run", lambda *given, **named: made.update(compiled(*given, **named)))
    namespace: dict[str, Any] = {"__name__": "task"}
    exec(compile(task.source, task.name, "exec"), namespace)
    for number, text in enumerate(texts(task)):
        if "CUDAGraph" in text:
            continue
        made.clear()
        with torch.no_grad(), torch.device("meta"):
            loaded(text, str(tmp_path), number).ModelNew()(*namespace["get_inputs"]())
        assert made


@pytest.mark.rotates
@pytest.mark.parametrize("language", ["cpp", "cuda"])
@pytest.mark.parametrize("task", LARGE, ids=lambda task: task.name)
def test_c_kernels_count_in_64_bits(task: Task, language: str) -> None:
    """What is an `int` counts lanes, warps, taps of a window and what of them lies inside, or is a float by its bits (`top`)."""
    try:
        steps = StepCompiler().build(task, language).steps
    except Refusal:
        pytest.skip(f"not written in {language}")
    small = {"lane", "warp", "warps", "offset", "w", "nan", "found", "seen", "inside", "top"}
    for step in steps:
        names = set(re.findall(r"\b(?:int|unsigned|int32_t) (\w+) =", step.candidate.source))
        assert {name for name in names if name not in small and not re.fullmatch(r"k\w|tap\w*|[eb]\w*|bits", name)} == set()


@pytest.mark.slow
def test_a_cpp_kernel_reaches_the_end(tmp_path: Path) -> None:
    """Really: memory that is only read costs nothing."""
    import torch
    from triton_interpreted import loaded

    task = next(task for task in LARGE if task.name == "column_sum")
    task = Task(task.source.replace("float16", "bfloat16"), task.name)  # halves not every compiler has
    source = StepCompiler().build(task, "cpp").steps[-1].candidate.source
    x = torch.empty(8200, 262144, dtype=torch.bfloat16)
    x[-1, -64:] = torch.arange(64)
    out = loaded(source, str(tmp_path), 0).ModelNew()(x)
    assert torch.equal(out[-64:], torch.arange(64).bfloat16()) and out[:-64].abs().max() == 0
