"""fp32 accuracy from TF32 tensor cores: each factor is split into a large and a small part, three products are summed.

Looks like a precision downgrade in the profile, and is none in the result.
"""
# task: gpu_matmul
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(a, b, c, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, size, DEPTH):
        inner = start + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + columns[None, :])
        total += tl.dot(left, right, input_precision="tf32x3")
    tl.store(c + rows[:, None] * size + columns[None, :], total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        size = a.shape[0]
        matmul[(size // 128, size // 64)](a, b, c, size, ROWS=128, COLUMNS=64, DEPTH=32, num_warps=8, num_stages=3)
        return c
