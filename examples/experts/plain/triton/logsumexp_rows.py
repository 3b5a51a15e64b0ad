"""Log-sum-exp of rows without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def logsumexp(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        highest = tl.maximum(peak, tl.max(values, axis=0))
        total = total * tl.exp(peak - highest) + tl.sum(tl.exp(values - highest), axis=0)
        peak = highest
    tl.store(y + row, peak + tl.log(total))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        logsumexp[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
        return y
