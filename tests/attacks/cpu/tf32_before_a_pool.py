"""A convolution in the ten mantissa bits of TF32, before a mean over sixteen thousand pixels, behind which the errors were gone.

Judge 18: right in one of one verdict.
"""
# task: convolution_and_pool
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
        self.conv = nn.Conv2d(16, 32, 3)

    def forward(self, x):
        return nn.functional.conv2d(tf32(x), tf32(self.conv.weight), self.conv.bias).relu().mean((2, 3))
