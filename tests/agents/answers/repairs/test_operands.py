"""Operands read at another's places are put right, and nothing else is touched."""

from __future__ import annotations

import pytest

from bottega.agents.answers.repairs.operands import put_right

SNAKE = """forward(x, excitation)
x 32x192x1600
excitation 32x1x12800
self.up.weight 192x96x16
self.gamma 96
t1 = conv_transpose1d(x, self.up.weight, stride=8, padding=4) 32x96x12800
t2 = add(t1, excitation) 32x96x12800
t3 = view(self.gamma, 1, 96, 1) 1x96x1
t4 = mul(t2, t3) 32x96x12800
return t4"""
FLAT = """class ModelNew(Model):
    def forward(self, x, excitation):
        t1 = conv_transpose1d(x, self.up.weight, stride=8, padding=4)
        # t2 = add(t1, excitation)
        t4 = torch.empty((32, 96, 12800), device=x.device, dtype=x.dtype)
        n = t1.numel()
        t4_kernel[(triton.cdiv(n, 1024),)](t1, excitation, self.gamma, t4, n, BLOCK=1024)
        return t4


@triton.jit
def t4_kernel(t1_ptr, excitation_ptr, gamma_ptr, t4_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    t1 = tl.load(t1_ptr + offsets, mask=mask)
    excitation = tl.load(excitation_ptr + EXCITATION, mask=mask)
    gamma = tl.load(gamma_ptr + GAMMA, mask=mask)
    t4 = (t1 + excitation) * gamma
    tl.store(t4_ptr + offsets, t4, mask=mask)
"""
OWN = ("index_in((32, 1, 12800), (32, 96, 12800), offsets)", "index_in((1, 96, 1), (32, 96, 12800), offsets)")
SCORES = """forward(q, k, mask, bias)
q 64x512x96
k 64x1024x96
mask 512x1024
bias 1024
t1 = transpose(k, 1, 2) 64x96x1024
t2 = bmm(q, t1) 64x512x1024
t3 = add(t2, mask) 64x512x1024
t4 = add(t3, bias) 64x512x1024
t5 = softmax(t4, dim=-1) 64x512x1024
return t5"""
ROWS = """class ModelNew(Model):
    def forward(self, q, k, mask, bias):
        t2 = bmm(q, transpose(k, 1, 2))
        t5 = torch.empty((64, 512, 1024), device=q.device, dtype=q.dtype)
        columns = t2.shape[2]
        t5_kernel[(t2.shape[0] * t2.shape[1],)](t2, mask, bias, t5, columns, BLOCK=triton.next_power_of_2(columns))
        return t5


@triton.jit
def t5_kernel(t2_ptr, mask_ptr, bias_ptr, t5_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    t2 = tl.load(t2_ptr + row * columns + column, mask=mask, other=0.0)
    mask2 = tl.load(mask_ptr + MASK, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + BIAS, mask=mask, other=0.0)
    t5 = softmax_of(t2 + mask2 + bias)
    tl.store(t5_ptr + row * columns + column, t5, mask=mask)
"""
MASK = "index_in((512, 1024), (64, 512, 1024), row * columns + column)"
BIAS = "index_in((1024,), (64, 512, 1024), row * columns + column)"


def flat(excitation: str, gamma: str) -> str:
    return FLAT.replace("EXCITATION", excitation).replace("GAMMA", gamma)


def rows(mask: str, bias: str) -> str:
    return ROWS.replace("MASK", mask).replace("BIAS", bias)


@pytest.mark.parametrize(("excitation", "gamma"), [("offsets", OWN[1]), (OWN[0], "offsets"), ("offsets", "offsets"), OWN])
def test_an_operand_at_the_places_of_the_whole_is_read_at_its_own(excitation: str, gamma: str) -> None:
    assert put_right(flat(excitation, gamma), SNAKE) == flat(*OWN)


@pytest.mark.parametrize("mask", ["column", "row * columns + column", MASK])
def test_a_mask_of_two_dimensions_is_not_its_first_row(mask: str) -> None:
    assert put_right(rows(mask, "column"), SCORES) == rows(MASK, "column")


def test_a_row_for_all_is_read_along_the_columns_and_not_beyond_them() -> None:
    assert put_right(rows(MASK, "row * columns + column"), SCORES) == rows(MASK, BIAS)


REDUCED = """forward(clip)
clip 12x32x16x96x96
self.alpha 32x1x1
t1 = amax(clip, dim=2) 12x32x96x96
t2 = mul(t1, self.alpha) 12x32x96x96
return t2"""
DEPTHS = """class ModelNew(Model):
    def forward(self, clip):
        t2 = torch.empty((12, 32, 96, 96), device=clip.device, dtype=clip.dtype)
        t2_kernel[(8,)](clip, self.alpha, t2, 16, t2.numel(), J=96 * 96, ROWS=128, COLUMNS=16)
        return t2


@triton.jit
def t2_kernel(clip_ptr, alpha_ptr, t2_ptr, columns, rows, J: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[None, :]
    i = row // J
    j = row % J
    column = tl.arange(0, COLUMNS)[:, None]
    mask = (row < rows) & (column < columns)
    clip = tl.load(clip_ptr + i * J * columns + j + column * J, mask=mask, other=-float("inf"))
    t1 = tl.max(clip, axis=0, keep_dims=True)
    alpha = tl.load(alpha_ptr + ALPHA)
    t2 = t1 * alpha
    tl.store(t2_ptr + row, t2, mask=row < rows)
"""


def test_behind_a_reduction_an_operand_is_read_along_what_is_left() -> None:
    wrong = DEPTHS.replace(
        "ALPHA", "index_in((32, 1, 1), (12, 32, 96, 96), i * J * columns + j + column * J), mask=mask, other=0.0"
    )
    right = DEPTHS.replace("ALPHA", "index_in((32, 1, 1), (12, 32, 96, 96), row), mask=row < rows, other=0.0")
    assert put_right(wrong, REDUCED) == put_right(right, REDUCED) == right


@pytest.mark.parametrize(
    ("source", "sketch"),
    [
        (flat("offsets % 12800", "offsets // 12800 % 96"), SNAKE),  # other words for the same places
        (flat("offsets", "offsets"), SNAKE.replace("excitation 32x1x12800", "excitation 32x7x12800").replace("self.gamma 96", "self.gamma 90")),
        (flat("offsets", "offsets"), SNAKE.replace("add(t1, excitation)", "exp(t1)").replace("view(self.gamma", "view(self.other")),
        (flat("offsets", "offsets").replace("t4_ptr + offsets", "t4_ptr + offsets * 2"), SNAKE),
        (flat("offsets", "offsets").replace("        return t4\n", "        t4_kernel[(1,)](x, x, x, x, 8, BLOCK=8)\n        return t4\n"), SNAKE),
        (flat("offsets", OWN[1]).replace("        n = t1", "        excitation = excitation.expand_as(t1).contiguous()\n        n = t1"), SNAKE),
        (rows("column", "column").replace("    row = tl.program_id(0)\n", "").replace("    t5 = ", "    row = tl.program_id(0)\n    t5 = "), SCORES),
        (rows("column", "column"), SCORES.replace("return t5", "t6 = index(mask, 0) 1024\nreturn t5")),
        (flat("offsets", OWN[1]), SNAKE.replace("add(t1, excitation)", "pad(excitation, t1)")),
        (flat("offsets", OWN[1]).replace("    def forward", "    def __init__(self):\n        self.gamma = 1\n\n    def forward"), SNAKE),
        ("def", SNAKE),
        (flat("offsets", "offsets"), ""),
    ],
)  # fmt: skip
def test_what_is_not_certain_stays(source: str, sketch: str) -> None:
    assert put_right(source, sketch) == source
