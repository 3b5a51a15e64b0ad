"""One Triton program per row, the row in registers: one read, one write."""
# task: gpu_softmax
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    columns_here = tl.arange(0, BLOCK)
    inside = columns_here < columns
    offsets = tl.program_id(0) * columns + columns_here
    values = tl.load(x + offsets, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + offsets, values / tl.sum(values, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        softmax_rows[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return y
