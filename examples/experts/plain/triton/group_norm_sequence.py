"""Group norm without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def group_norm(x, weight, bias, y, channels, length, groups, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    size = channels // groups * length
    base = group * size
    total = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + base + at, mask=at < size, other=0.0), axis=0)
    mean = total / size
    squares = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + base + at, mask=at < size, other=0.0)
        squares += tl.sum(tl.where(at < size, (values - mean) * (values - mean), 0.0), axis=0)
    factor = 1.0 / tl.sqrt(squares / size + eps)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < size
        channel = group % groups * (channels // groups) + at // length
        values = tl.load(x + base + at, mask=inside, other=0.0)
        gain = tl.load(weight + channel, mask=inside, other=0.0)
        shift = tl.load(bias + channel, mask=inside, other=0.0)
        tl.store(y + base + at, (values - mean) * factor * gain + shift, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, num_groups, num_channels):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups, num_channels)

    def forward(self, x):
        y = torch.empty_like(x)
        norm = self.norm
        batch, channels, length = x.shape
        group_norm[(batch * norm.num_groups,)](
            x, norm.weight, norm.bias, y, channels, length, norm.num_groups, norm.eps, BLOCK=1024
        )
        return y
