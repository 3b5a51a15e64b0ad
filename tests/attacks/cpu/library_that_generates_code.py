"""Calls a library convolution, whose machine code lies in anonymous memory like a candidate's own might.

A share of own kernels that counts generated code as the candidate's sees a kernel author where there is none.
"""
# task: convolution
# expect: rejected
# violation: coverage_too_low,coverage_unmeasured
# options: require_kernel=0.3

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1)

    def forward(self, x):
        return self.convolution(x.contiguous())
