"""Layer normalisation in one sweep, with gain and bias as they are loaded."""
# task: gpu_layer_norm
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm(x, gain, bias, y, columns, epsilon, BLOCK: tl.constexpr):
    here = tl.arange(0, BLOCK)
    inside = here < columns
    offsets = tl.program_id(0) * columns + here
    values = tl.load(x + offsets, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    result = centred * scale * tl.load(gain + here, mask=inside, other=0.0) + tl.load(bias + here, mask=inside, other=0.0)
    tl.store(y + offsets, result, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        norm, (rows, columns) = self.norm, x.shape
        layer_norm[(rows,)](x, norm.weight, norm.bias, y, columns, norm.eps, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return y
