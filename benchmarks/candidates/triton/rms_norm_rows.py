"""One program per row, the row in registers."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm(x, gain, y, width, eps, BLOCK: tl.constexpr):
    # variation 0
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    base = tl.program_id(0).to(tl.int64) * width
    values = tl.load(x + base + columns, mask=inside, other=0.0)
    factor = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / width + eps)
    tl.store(y + base + columns, values * factor * tl.load(gain + columns, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        rows, width = x.shape
        rms_norm[(rows,)](x, self.gain, y, width, self.eps, BLOCK=triton.next_power_of_2(width), num_warps=8)
        return y
