"""A Triton matrix product with the default precision of `tl.dot`, which is TF32.

The kernel is its own, fast and honest in everything but the precision the task asked for.
"""
# task: gpu_matmul
# expect: incorrect

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(a, b, c, size, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, size, DEPTH):
        inner = start + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + columns[None, :])
        total = tl.dot(left, right, total, input_precision="tf32")
    tl.store(c + rows[:, None] * size + columns[None, :], total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        size = a.shape[0]
        matmul[(size // 128, size // 128)](a, b, c, size, BLOCK=128, DEPTH=32, num_warps=8)
        return c
