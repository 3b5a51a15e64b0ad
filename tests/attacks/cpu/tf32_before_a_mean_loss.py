"""Logits in the ten mantissa bits of TF32, before a mean over thousands of tokens, behind which the errors were gone.

Judge 18: right in one of one verdict.
"""
# task: linear_cross_entropy
# expect: incorrect
# violation: precision_downgrade
# options: quick=true timed=false

import torch
from torch import nn


def tf32(x):
    return ((x.contiguous().view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 1000)

    def forward(self, x, target):
        logits = nn.functional.linear(tf32(x), tf32(self.head.weight), self.head.bias)
        return nn.functional.cross_entropy(logits, target)
