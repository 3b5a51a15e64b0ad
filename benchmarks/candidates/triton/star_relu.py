"""StarReLU in one pass over memory."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def star_relu(x, scale, shift, y, count, BLOCK: tl.constexpr):
    # variation 0
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    values = tl.maximum(tl.load(x + places, mask=inside, other=0.0), 0.0)
    tl.store(y + places, tl.load(scale) * values * values + tl.load(shift), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.8944))
        self.shift = nn.Parameter(torch.tensor(-0.4472))

    def forward(self, x):
        y = torch.empty_like(x)
        star_relu[(triton.cdiv(x.numel(), 2048),)](x, self.scale, self.shift, y, x.numel(), BLOCK=2048)
        return y
