"""A product with its epilogue: bias, Mish, residual and clip before the one store."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def linear_mish(
    x,
    weight,
    bias,
    skip,
    y,
    rows,
    width,
    columns,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    down, across = tl.cdiv(rows, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    group = pid // (GROUP * across)
    size = tl.minimum(down - group * GROUP, GROUP)
    row = (group * GROUP + pid % (GROUP * across) % size) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = (pid % (GROUP * across) // size) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * width + at[None, :], mask=(row[:, None] < rows) & (at[None, :] < width), other=0.0)
        b = tl.load(
            weight + column[None, :] * width + at[:, None], mask=(column[None, :] < columns) & (at[:, None] < width), other=0.0
        )
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    acc = acc + tl.load(bias + column, mask=column < columns, other=0.0)[None, :]
    e = tl.exp2(tl.minimum(acc, 20.0) * 1.4426950408889634)
    n = e * (e + 2.0)
    acc = acc * n / (n + 2.0) + tl.load(skip + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    acc = tl.minimum(tl.maximum(acc, -2.5), 2.5)
    tl.store(y + row[:, None] * columns + column[None, :], acc, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x, skip):
        rows, width = x.shape
        columns = self.linear.weight.shape[0]
        y = torch.empty_like(skip)
        grid = lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]) * triton.cdiv(columns, meta["BLOCK_N"]),)
        linear_mish[grid](
            x,
            self.linear.weight,
            self.linear.bias,
            skip,
            y,
            rows,
            width,
            columns,
            BLOCK_M=128,
            BLOCK_N=128,
            BLOCK_K=32,
            GROUP=8,
            num_warps=8,
            num_stages=3,
        )
        return y
