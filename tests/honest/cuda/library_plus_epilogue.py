"""The library multiplies, a kernel of its own adds bias and GELU in place on the product: a usual division of labour."""
# task: gpu_linear_gelu
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_bias_gelu(x, bias, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets) + tl.load(bias + offsets % columns)
    tl.store(x + offsets, 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476)))


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, x):
        y = x @ self.linear.weight.t()
        add_bias_gelu[(y.numel() // 1024,)](y, self.linear.bias, y.shape[1], BLOCK=1024)
        return y
