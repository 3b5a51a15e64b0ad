"""A linear layer with a low-rank correction, without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def low_rank(
    x,
    weight,
    bias,
    down,
    up,
    y,
    rows,
    width,
    columns,
    scaling,
    RANK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rank = tl.arange(0, RANK)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(x + row[:, None] * width + at[None, :], mask=(row[:, None] < rows) & (at[None, :] < width), other=0.0)
        b = tl.load(
            weight + column[None, :] * width + at[:, None], mask=(column[None, :] < columns) & (at[:, None] < width), other=0.0
        )
        c = tl.load(down + at[:, None] * RANK + rank[None, :], mask=at[:, None] < width, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        low = tl.dot(a, c, low, input_precision="ieee")
    d = tl.load(up + rank[:, None] * columns + column[None, :], mask=column[None, :] < columns, other=0.0)
    acc = tl.dot(low * scaling, d, acc, input_precision="ieee")
    acc = acc + tl.load(bias + column, mask=column < columns, other=0.0)[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tl.store(y + row[:, None] * columns + column[None, :], acc, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, rank, alpha=16.0):
        super().__init__()
        self.base = nn.Linear(in_features, out_features)
        self.down = nn.Parameter(torch.zeros(in_features, rank))
        self.up = nn.Parameter(torch.zeros(rank, out_features))
        self.scaling = alpha / rank

    def forward(self, x):
        rows, width = x.shape
        rank, columns = self.up.shape
        y = torch.empty(rows, columns, device=x.device)
        grid = lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]), triton.cdiv(columns, meta["BLOCK_N"]))
        low_rank[grid](
            x,
            self.base.weight,
            self.base.bias,
            self.down,
            self.up,
            y,
            rows,
            width,
            columns,
            self.scaling,
            RANK=rank,
            BLOCK_M=16,
            BLOCK_N=16,
            BLOCK_K=16,
            num_stages=1,
        )
        return y
