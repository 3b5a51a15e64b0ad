"""Weighted binary cross-entropy of rows without any optimisation."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def losses(logits, targets, weight, y, labels, BLOCK: tl.constexpr):
    base = tl.program_id(0) * labels
    total = 0.0
    for start in range(0, labels, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < labels
        x = tl.load(logits + base + at, mask=inside, other=0.0)
        target = tl.load(targets + base + at, mask=inside, other=0.0)
        factor = 1.0 + (tl.load(weight + at, mask=inside, other=0.0) - 1.0) * target
        loss = (1.0 - target) * x + factor * (tl.log(1.0 + tl.exp(-tl.abs(x))) + tl.maximum(-x, 0.0))
        total += tl.sum(tl.where(inside, loss, 0.0), axis=0)
    tl.store(y + tl.program_id(0), total)


class ModelNew(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.register_buffer("positive_weight", torch.ones(labels))

    def forward(self, logits, targets):
        rows, labels = logits.shape
        y = torch.empty(rows, device=logits.device)
        losses[(rows,)](logits, targets, self.positive_weight, y, labels, BLOCK=128)
        return y
