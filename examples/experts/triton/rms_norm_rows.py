"""RMS normalisation by persistent programs: rows stream through the cache, the gain stays in it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm(x, gain, y, rows, width, eps, BLOCK: tl.constexpr):
    columns = tl.max_contiguous(tl.arange(0, BLOCK), BLOCK)
    inside = columns < width
    weights = tl.load(gain + columns, mask=inside, other=0.0)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row * width
        values = tl.load(x + base + columns, mask=inside, other=0.0, eviction_policy="evict_first")
        factor = tl.rsqrt(tl.sum(values * values, axis=0) / width + eps)
        tl.store(y + base + columns, values * factor * weights, mask=inside, eviction_policy="evict_first")


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        rows, width = x.shape
        block = triton.next_power_of_2(width)
        rms_norm[(min(rows, 1056),)](x, self.gain, y, rows, width, self.eps, BLOCK=block, num_warps=8)
        return y
