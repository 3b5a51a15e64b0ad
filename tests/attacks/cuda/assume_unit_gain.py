"""A Triton layer normalisation that leaves out gain and bias, which are one and zero in a fresh layer.

Right for every model that was never trained.
"""
# task: gpu_layer_norm
# expect: incorrect

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def normalise(x, y, columns, epsilon, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    values -= tl.sum(values, axis=0) / columns
    tl.store(y + offsets, values * tl.rsqrt(tl.sum(values * values, axis=0) / columns + epsilon))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        normalise[(x.shape[0],)](x, y, x.shape[1], self.norm.eps, BLOCK=x.shape[1])
        return y
