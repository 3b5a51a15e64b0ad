"""How far kernels reach: right answers of every form are left alone, misread shapes are seen, and odd texts say nothing."""

from __future__ import annotations

import textwrap

import pytest

from bottega.agents.answers.lint.bounds import reaches

HEAD = "import torch\n\n\nclass ModelNew(Model):\n    def forward(self, {inputs}):\n{forward}\n\n\n{kernels}"


def _answer(inputs: str, forward: str, kernels: str) -> str:
    return HEAD.format(
        inputs=inputs, forward=textwrap.indent(textwrap.dedent(forward).strip(), " " * 8), kernels=textwrap.dedent(kernels)
    )


SOFTMAX = "forward(q, mask)\nq 6x40x70\nmask 40x70\nt1 = add(q, mask) 6x40x70\nt2 = softmax(t1, dim=-1) 6x40x70\nreturn t2"
ROWS = """
t2 = torch.empty((6, 40, 70), device=q.device, dtype=q.dtype)
columns = q.shape[2]
t2_kernel[({grid},)](q, mask, t2, columns, BLOCK=triton.next_power_of_2(columns))
return t2
"""
ROW_KERNEL = """
@triton.jit
def t2_kernel(q_ptr, mask_ptr, t2_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    q = tl.load(q_ptr + row * columns + column, mask=inside, other=0.0)
    more = tl.load(mask_ptr + {place}, mask=inside, other=0.0)
    t1 = q + more
    t2 = tl.exp(t1) / tl.sum(tl.exp(t1), axis=0)
    tl.store(t2_ptr + row * columns + column, t2, mask={mask})
"""
LOOKED_UP = "index_in((40, 70), (6, 40, 70), row * columns + column)"
GRID = "q.shape[0] * q.shape[1]"


@pytest.mark.parametrize(
    ("grid", "place", "mask", "said"),
    [
        (GRID, LOOKED_UP, "inside", None),
        (GRID, "row % 40 * columns + column", "inside", None),
        (GRID, "row * columns + column", "inside", "reads mask, of 2800 elements, at place 16799"),
        (GRID, "(row - 1) * columns + column", "inside", "places before mask"),
        ("q.shape[1]", LOOKED_UP, "inside", "writes t2, of 16800 elements, up to place 2799 alone"),
        ("q.numel()", LOOKED_UP, "inside", "reads q, of 16800 elements"),
        (GRID, LOOKED_UP, "column < 2 * columns", "writes t2, of 16800 elements, at place"),
    ],
)
def test_a_kernel_of_rows(grid: str, place: str, mask: str, said: str | None) -> None:
    source = _answer("q, mask", ROWS.format(grid=grid), ROW_KERNEL.format(place=place, mask=mask))
    found = reaches(source, SOFTMAX)
    assert (not found) if said is None else any(said in one for one in found), found


NORM = "forward(x)\nx 3x20x4x6\nself.gain 20\nt1 = permute(x, 0, 2, 3, 1) 3x4x6x20\nt2 = layer_norm(t1, (20,), self.gain) 3x4x6x20\nreturn t2"
PERMUTED = """
t2 = torch.empty((3, 4, 6, 20), device=x.device, dtype=x.dtype)
columns = x.shape[1]
width = triton.next_power_of_2(columns)
height = max(1, 64 // width)
rows = x.numel() // x.shape[1]
t2_kernel[(triton.cdiv(rows, height),)](x, self.gain, t2, columns, rows, J={J}, ROWS=height, COLUMNS=width)
return t2
"""
PERMUTED_KERNEL = """
@triton.jit
def t2_kernel(x_ptr, gain_ptr, t2_ptr, columns, rows, J: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    i = row // J
    j = row % J
    column = tl.arange(0, COLUMNS)[:, None]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + i * J * columns + j + column * J, mask=mask, other=0.0)
    gain = tl.load(gain_ptr + {gain}, other=0.0)
    tl.store(t2_ptr + row * columns + column, x * gain, mask=mask)
"""


@pytest.mark.parametrize(
    ("J", "gain", "said"),
    [
        ("x.shape[2] * x.shape[3]", "column, mask=column < columns", None),
        ("x.shape[2] * x.shape[3]", "row, mask=row < rows", "reads self.gain, of 20 elements, at place 71"),
        (
            "x.shape[3]",
            "column, mask=column < columns",
            None,
        ),  # wrong, and inside all the same: this looks at how far and not at what
        ("x.shape[2] * x.shape[3] * 2", "column, mask=column < columns", "reads x, of 1440 elements, at place"),
    ],
)
def test_a_kernel_over_permuted_rows(J: str, gain: str, said: str | None) -> None:
    found = reaches(_answer("x", PERMUTED.format(J=J), PERMUTED_KERNEL.format(gain=gain)), NORM)
    assert (not found) if said is None else any(said in one for one in found), found


SUM = "forward(a, b)\na 900x70\nb 900x70\nt1 = mse_loss(a, b) scalar\nreturn t1"
SPLIT = """
t1 = torch.empty((), device=a.device, dtype=a.dtype)
parts = torch.empty((16, 1), device=a.device, dtype=torch.float32)
t1_partial_kernel[(1, 16)](a, b, parts, {count}, 1, BLOCK=512, SPLITS=16)
t1_final_kernel[(1,)](parts, t1, 1, SPLITS=16)
return t1
"""
SPLIT_KERNELS = """
@triton.jit
def t1_partial_kernel(a_ptr, b_ptr, parts_ptr, columns, rows, BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(1) * BLOCK, columns, SPLITS * BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < columns
        a = tl.load(a_ptr + row * columns + column, mask=mask, other=0.0)
        b = tl.load(b_ptr + row * columns + column, mask=mask, other=0.0)
        total += (a - b) * (a - b)
    tl.store(parts_ptr + tl.program_id(1) * rows + row, tl.sum(total, axis=0))


@triton.jit
def t1_final_kernel(parts_ptr, t1_ptr, rows, SPLITS: tl.constexpr):
    part = tl.arange(0, SPLITS)
    total = tl.load(parts_ptr + part * rows)
    tl.store(t1_ptr, tl.sum(total, axis=0))
"""


@pytest.mark.parametrize(
    ("count", "said"), [("a.numel()", None), ("a.shape[0]", "reads a, of 63000 elements, up to place 899 alone")]
)
def test_programs_that_take_turns(count: str, said: str | None) -> None:
    found = reaches(_answer("a, b", SPLIT.format(count=count), SPLIT_KERNELS), SUM)
    assert (not found) if said is None else any(said in one for one in found), found


HALVES = "forward(x)\nx 4x10\nt1_0, t1_1 = chunk(x, 2, dim=1) 4x5 4x5\nt2 = mul(t1_0, t1_1) 4x5\nreturn t2"
HALF = """
t2 = torch.empty((4, 5), device=x.device, dtype=x.dtype)
n = t2.numel()
t2_kernel[(triton.cdiv(n, 8),)](x, t2, n, BLOCK=8)
return t2
"""
HALF_KERNEL = """
@triton.jit
def t2_kernel(x_ptr, t2_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    left = tl.load(x_ptr + index_in_part((4, 10), 1, 0, (4, 5), offsets), mask=mask)
    right = tl.load(x_ptr + index_in_part((4, 10), 1, {start}, (4, 5), offsets), mask=mask)
    tl.store(t2_ptr + offsets, left * right, mask=mask)
"""


@pytest.mark.parametrize(("start", "said"), [(5, None), (0, None), (10, "reads x, of 40 elements, at place")])
def test_parts_of_a_tensor(start: int, said: str | None) -> None:
    """The left half twice is wrong, but a tensor that is cut need not be read to its end."""
    found = reaches(_answer("x", HALF, HALF_KERNEL.format(start=start)), HALVES)
    assert (not found) if said is None else any(said in one for one in found), found


def test_a_view_of_a_part_says_nothing() -> None:
    sketch = "forward(x)\nx 4x10\nt1 = narrow(x, 1, 0, 5) 4x5\nt2 = relu(t1) 4x5\nreturn t2"
    forward = (
        "t1 = x[:, :5]\nt2 = torch.empty((4, 5), device=x.device)\nt2_kernel[(4,)](t1, t2, t1.stride(0), BLOCK=8)\nreturn t2"
    )
    kernel = """
    @triton.jit
    def t2_kernel(t1_ptr, t2_ptr, stride, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        column = tl.arange(0, BLOCK)
        t1 = tl.load(t1_ptr + row * stride + column, mask=column < 5)
        tl.store(t2_ptr + row * 5 + column, t1, mask=column < 5)
    """
    assert reaches(_answer("x", forward, kernel), sketch) == ()


@pytest.mark.parametrize(
    "body",
    [
        "    at = tl.load(x_ptr + tl.arange(0, 8))\n    tl.store(t1_ptr + at, at)",  # places that are data
        "    x_ptr += 10**9\n    tl.store(t1_ptr + helper(3), tl.load(x_ptr))",
        "    lane = tl.arange(0, 2**40)\n    tl.store(t1_ptr + lane, lane)",
        "    lane = tl.arange(0, 2**17)\n    tl.store(t1_ptr + lane[:, None], 1.0, mask=lane[None, :] < 5)",
        "    while True:\n        tl.store(t1_ptr + 99, 1.0)",
        "    tl.store(t1_ptr + 10 // (tl.program_id(0) * 0), 1.0)",
        "    for a in range(10**15):\n        for b in range(10**15):\n            for c in range(10**15):\n                tl.load(x_ptr + a * 0)",
        "    tl.store(*x_ptr)",
        "    tl.arange()\n    tl.load()\n    tl.program_id('x')",
    ],
)
def test_what_cannot_be_reckoned_says_nothing(body: str) -> None:
    kernel = f"@triton.jit\ndef t1_kernel(x_ptr, t1_ptr):\n{body}\n"
    sketch = "forward(x)\nx 8\nt1 = relu(x) 8\nreturn t1"
    forward = "t1 = torch.empty((8,), device=x.device)\nt1_kernel[(4,)](x, t1)\nreturn t1"
    assert reaches(_answer("x", forward, kernel), sketch) == ()


DEPTH = "forward(x)\nx 6x40x70\nself.gain 70\nt1 = amax(x, dim=1) 6x70\nt2 = mul(t1, self.gain) 6x70\nreturn t2"
OVER_DEPTH = """
t2 = torch.empty((6, 70), device=x.device, dtype=x.dtype)
rows = t2.numel()
t2_kernel[(triton.cdiv(rows, 4),)](x, self.gain, t2, x.shape[1], rows, J=x.shape[2], ROWS=4, COLUMNS=64)
return t2
"""
DEPTH_KERNEL = """
@triton.jit
def t2_kernel(x_ptr, gain_ptr, t2_ptr, columns, rows, J: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    column = tl.arange(0, COLUMNS)[:, None]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row // J * J * columns + row % J + column * J, mask=mask, other=-float("inf"))
    t1 = {reduced}
    gain = {gain}
    t2 = libdevice.tanh(-t1) * tl.where(t1 > 0, gain, 1.0)
    tl.store(t2_ptr + row, t2, mask=row < rows)
"""
KEPT = "tl.max(x, axis=0, keep_dims=True)"
BY_ROW = "tl.load(gain_ptr + index_in((70,), (6, 70), row), mask=row < rows)"


@pytest.mark.parametrize(
    ("reduced", "gain", "said"),
    [
        (KEPT, BY_ROW, None),
        ("tl.reduce(x, 0, helper, keep_dims=True)", BY_ROW, None),
        ("helper(x)", BY_ROW, None),
        ("tl.max(x, axis=0)[None, :]", BY_ROW, None),
        (KEPT, "tl.load(gain_ptr + row % 70 + column * 0, mask=mask)", "blocks of 64x4 at places of 1x4"),
        (KEPT, "tl.load(gain_ptr + row % 70, mask=mask)", "blocks of 64x4 at places of 1x4"),
        ("tl.max(x, axis=1)", BY_ROW, "blocks of 64 and 1x4"),
        ("tl.max(x, axis=2)", BY_ROW, "a block of 64x4 and its axis 2"),
    ],
)
def test_blocks_that_do_not_fit_together(reduced: str, gain: str, said: str | None) -> None:
    found = reaches(_answer("x", OVER_DEPTH, DEPTH_KERNEL.format(reduced=reduced, gain=gain)), DEPTH)
    assert (not found) if said is None else found == (f"t2_kernel brings together {said}",), found


@pytest.mark.parametrize("source", ["", "def", "class ModelNew:\n    pass\n", "x = 1\x00"])
def test_no_answer(source: str) -> None:
    assert reaches(source, SUM) == ()
    assert reaches(_answer("a, b", SPLIT.format(count=1), SPLIT_KERNELS), "") == ()
