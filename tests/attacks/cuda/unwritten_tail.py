"""A Triton kernel whose grid is rounded down, so that the last rows are never written.

The caching allocator returns memory of the last, equal call, and the tail looks right.
"""
# task: gpu_softmax
# expect: incorrect

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + offsets, values / tl.sum(values, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_rows[(x.shape[0] - 7,)](x, y, x.shape[1], BLOCK=x.shape[1])
        return y
