"""Sum and normalise in one pass; the sum is an output too."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def residual_rms_norm(x, residual, weight, y, total, width, BLOCK: tl.constexpr):
    # variation 0
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    places = tl.program_id(0).to(tl.int64) * width + columns
    values = tl.load(x + places, mask=inside, other=0.0) + tl.load(residual + places, mask=inside, other=0.0)
    tl.store(total + places, values, mask=inside)
    factor = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / width + 1e-5)
    tl.store(y + places, values * factor * tl.load(weight + columns, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        y, total = torch.empty_like(x), torch.empty_like(x)
        width = x.shape[-1]
        grid = (x.numel() // width,)
        block = triton.next_power_of_2(width)
        residual_rms_norm[grid](x, residual, self.weight, y, total, width, BLOCK=block, num_warps=8)
        return y, total
