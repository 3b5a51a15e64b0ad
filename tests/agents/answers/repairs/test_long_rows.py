"""Rows that are too long for one program: kernels that hold a row get a twin that takes it in pieces, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bottega.agents.answers.repairs.long_rows import taken_in_pieces

FLOATS = "forward(a)\na 3x40000\nt1 = exp(a) 3x40000\nreturn t1"
"""A sketch that says nothing of these kernels' rows."""
HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
TOTAL = """@triton.jit
def t2_kernel(x_ptr, gain_ptr, t2_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    # t1 = exp(x)
    t1 = tl.exp(x)
    gain = tl.load(gain_ptr)
    t2 = tl.sum(tl.where(mask, t1, 0.0), axis=0) / columns * gain
    tl.store(t2_ptr + row, t2)
"""
SOFTMAX = """@triton.jit
def t1_kernel(x_ptr, t1_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    top = tl.max(tl.where(mask, x, -float("inf")), axis=0)
    v0 = tl.exp(x - top)
    total = tl.sum(tl.where(mask, v0, 0.0), axis=0)
    t1 = v0 / total
    tl.store(t1_ptr + row * columns + column, t1, mask=mask)
"""
VARIANCE = """@triton.jit
def nan_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def t1_kernel(x_ptr, t1_ptr, t2_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    centre = tl.sum(tl.where(mask, x, 0.0), axis=0) / columns
    v0 = x - centre
    t1 = tl.sum(tl.where(mask, v0 * v0, 0.0), axis=0) / (columns - 1)
    t2 = tl.reduce(tl.where(mask, v0, float("inf")), 0, nan_min)
    tl.store(t1_ptr + row, t1)
    tl.store(t2_ptr + row, t2)
"""
RUN = {
    "total": (TOTAL, """
def run(x):
    gain, out, columns = torch.tensor([3.0]), torch.empty(x.shape[0]), x.shape[1]
    t2_kernel[(x.shape[0],)](
        x, gain, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8
    )
    return [(out, 3.0 * x.exp().mean(dim=1))]
"""),
    "softmax": (SOFTMAX, """
def run(x):
    out = torch.empty_like(x)
    t1_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return [(out, torch.softmax(x, dim=1))]
"""),
    "variance": (VARIANCE, """
def run(x):
    out, least, columns = torch.empty(x.shape[0]), torch.empty(x.shape[0]), x.shape[1]
    t1_kernel[(x.shape[0],)](x, out, least, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
    return [(out, x.var(dim=1)), (least, x.amin(dim=1) - x.mean(dim=1))]
"""),
}  # fmt: skip
CHECKED = """
torch.manual_seed(0)
for columns in (100, 32768, 40000):
    for found, wanted in run(torch.randn(3, columns)):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5), (columns, found, wanted)
held = [name for name in globals() if name.endswith("_kernel")]
assert [f"{name}_in_pieces" in globals() for name in held] == [True]
"""


@pytest.mark.parametrize("name", RUN)
def test_a_long_row_has_the_result_of_a_short_one(name: str, tmp_path: Path) -> None:
    kernel, run = RUN[name]
    source = f"{HEAD}{kernel}\n{run}"
    (tmp_path / "file.py").write_text(taken_in_pieces(source, FLOATS) + CHECKED)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, tmp_path / "file.py"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_loop_holds_only_what_it_needs_and_the_launch_chooses() -> None:
    kernel, run = RUN["softmax"]
    whole = taken_in_pieces(f"{HEAD}{kernel}\n{run}", FLOATS)
    assert "(t1_kernel if x.shape[1] <= 32768 else t1_kernel_in_pieces)[(x.shape[0],)]" in whole
    assert "BLOCK=triton.next_power_of_2(x.shape[1]) if x.shape[1] <= 32768 else 4096)" in whole
    first, second, third = whole.partition("def t1_kernel_in_pieces")[2].split("for start in range(0, columns, BLOCK):")[1:]
    assert "tl.exp" not in first and "tl.exp" in second and "tl.store" in third
    assert whole.startswith(f"{HEAD}{kernel}")  # what was written is there as it was
    assert taken_in_pieces(whole, FLOATS) == whole


@pytest.mark.parametrize(("width", "changes"), [(4, False), (9000, True)])
def test_the_sketch_tells_which_rows_are_short(width: int, changes: bool) -> None:
    run = """
def forward(self, x, gain):
    t2 = torch.empty((8,), device=x.device)
    columns = x.shape[1] * x.shape[2]
    t2_kernel[(8,)](x, gain, t2, columns, BLOCK=triton.next_power_of_2(columns))
    return t2
"""
    source = f"{HEAD}{TOTAL}\n{run}"
    assert (
        taken_in_pieces(source, f"forward(x, gain)\nx 8x4x{width}\ngain 1\nt1 = exp(x) 8x4x{width}\nreturn t1") != source
    ) == changes


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("    t1 = tl.exp(x)\n", "    t1 = tl.exp(x)\n    t1 = t1 + 1\n"),  # a name that means two things
        ("    t1 = tl.exp(x)\n", "    if columns > 3:\n        x = x + 1\n    t1 = tl.exp(x)\n"),
        ("axis=0) / columns", "axis=0) / BLOCK"),
        ("tl.sum(tl.where(mask, t1, 0.0), axis=0)", "tl.argmax(tl.where(mask, t1, 0.0), axis=0)"),
        ("    column = tl.arange(0, BLOCK)\n", "    column = tl.arange(0, BLOCK)\n    other = tl.arange(0, BLOCK)\n"),
        ("BLOCK=triton.next_power_of_2(columns)", "BLOCK=1024"),
        ("@triton.jit", "@triton.jit\n@other"),
        ("def run", "def run(:"),
        ("x_ptr + row * columns", "t2_ptr + row * columns"),  # stored, and loaded again in the next loop
        ("x_ptr + row * columns", "x_ptr + row * BLOCK"),
        ("column < columns", "column < columns - 1"),
        ("mask=mask, other=0.0", "mask=column < 7, other=0.0"),
        (", mask=mask, other=0.0)", ")"),
        ("t1 = tl.exp(x)", "t1 = tl.exp(x).to(tl.float64)"),
        ("tl.where(mask, t1, 0.0)", "tl.where(mask, column, 0)"),
        ("t1 = tl.exp(x)", "t1 = tl.exp(x) if columns else x"),
        ("t1 = tl.exp(x)", "start = 1"),
        ("(x.shape[0],)", "lambda meta: (x.shape[0],)"),
        ("x, gain, out, columns", "x, x, out, columns"),
        ("x, gain, out, columns, BLOCK", "x, gain, out, (columns := x.shape[1]), BLOCK"),
        ("def run(x)", "t2_kernel = print\n\n\ndef run(x)"),
        ("t1 = tl.exp(x)", "t1 = " + " + ".join(["x"] * 3000)),
    ],
)
def test_what_is_not_of_the_form_is_left_alone(found: str, instead: str) -> None:
    kernel, run = RUN["total"]
    source = f"{HEAD}{kernel}\n{run}"
    assert found in source, found
    other = source.replace(found, instead, 1)
    assert taken_in_pieces(other, FLOATS) == other


@pytest.mark.parametrize("sketch", ["", "forward(a)\na 3x40000 int64\nt1 = exp(a) 3x40000\nreturn t1"])
def test_other_numbers_and_no_sketch_leave_all_as_it_was(sketch: str) -> None:
    source = f"{HEAD}{TOTAL}\n{RUN['total'][1]}"
    assert taken_in_pieces(source, sketch) == source


def test_a_length_that_is_made_of_itself_many_times_ends() -> None:
    steps = "\n".join(f"    c{number + 1} = c{number} * c{number}" for number in range(40))
    run = RUN["total"][1].replace("    t2_kernel", f"    c0 = 3\n{steps}\n    columns = c40\n    t2_kernel")
    assert "t2_kernel_in_pieces" in taken_in_pieces(f"{HEAD}{TOTAL}\n{run}", FLOATS)
