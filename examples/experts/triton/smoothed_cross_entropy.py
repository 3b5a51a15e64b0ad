"""Label-smoothed cross-entropy in one pass over the logits: a running maximum, and loads that are under way early."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def losses(logits, labels, y, columns, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = -float("inf")
    total = 0.0
    plain = 0.0
    for start in tl.range(0, columns, BLOCK, num_stages=3):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        values = tl.load(logits + row * columns + at, mask=inside, other=-float("inf"), eviction_policy="evict_first")
        highest = tl.maximum(peak, tl.max(values, axis=0))
        total = total * tl.exp2((peak - highest) * 1.4426950408889634) + tl.sum(
            tl.exp2((values - highest) * 1.4426950408889634), axis=0
        )
        plain += tl.sum(tl.where(inside, values, 0.0), axis=0)
        peak = highest
    spread = peak + tl.log(total)
    picked = tl.load(logits + row * columns + tl.load(labels + row))
    result = -(1.0 - smoothing) * (picked - spread) - smoothing * (plain / columns - spread)
    tl.store(y + row, result)


class ModelNew(nn.Module):
    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, labels):
        rows, columns = logits.shape
        y = torch.empty(rows, device=logits.device)
        losses[(rows,)](logits, labels, y, columns, self.smoothing, BLOCK=4096, num_warps=8)
        return y
