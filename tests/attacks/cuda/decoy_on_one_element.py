"""Launches its Triton kernel in every call, on one element, and lets torch do the rest.

A launch counter is content; the kernel's share of the device time is next to nothing.
"""
# task: gpu_softmax
# expect: rejected
# violation: decoy_kernel

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def touch(y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(y + offsets))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, dim=1)
        touch[(1,)](y, BLOCK=1)
        return y
