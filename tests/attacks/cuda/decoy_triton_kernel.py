"""Defines a correct Triton kernel and lets torch do the work.

The text has everything that a static check asks for; the kernel is never launched.
"""
# task: gpu_softmax
# expect: rejected
# violation: decoy_kernel

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + offsets, values / tl.sum(values, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
