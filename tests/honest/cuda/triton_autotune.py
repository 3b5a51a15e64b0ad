"""A Triton matrix product in full fp32 that tries several tilings at its first call: many launches, clocks, caches."""
# task: gpu_matmul
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn

TILINGS = [
    triton.Config({"ROWS": 64, "COLUMNS": 64, "DEPTH": 16}, num_warps=4, num_stages=2),
    triton.Config({"ROWS": 128, "COLUMNS": 64, "DEPTH": 16}, num_warps=8, num_stages=2),
]


@triton.autotune(configs=TILINGS, key=["size"])
@triton.jit
def matmul(a, b, c, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, size, DEPTH):
        inner = start + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + columns[None, :])
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows[:, None] * size + columns[None, :], total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        size = a.shape[0]
        matmul[lambda tiling: (triton.cdiv(size, tiling["ROWS"]), triton.cdiv(size, tiling["COLUMNS"]))](a, b, c, size)
        return c
