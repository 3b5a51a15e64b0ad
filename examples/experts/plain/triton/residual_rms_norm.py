"""A sum and its RMS norm without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def residual_norm(x, residual, weight, y, total, width, eps, BLOCK: tl.constexpr):
    base = tl.program_id(0) * width
    squares = 0.0
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        values = tl.load(x + base + at, mask=inside, other=0.0) + tl.load(residual + base + at, mask=inside, other=0.0)
        squares += tl.sum(values * values, axis=0)
        tl.store(total + base + at, values, mask=inside)
    factor = 1.0 / tl.sqrt(squares / width + eps)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        values = tl.load(x + base + at, mask=inside, other=0.0) + tl.load(residual + base + at, mask=inside, other=0.0)
        gain = tl.load(weight + at, mask=inside, other=0.0)
        tl.store(y + base + at, values * factor * gain, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        y = torch.empty_like(x)
        total = torch.empty_like(x)
        width = x.shape[-1]
        residual_norm[(x.numel() // width,)](x, residual, self.weight, y, total, width, 1e-5, BLOCK=1024)
        return y, total
