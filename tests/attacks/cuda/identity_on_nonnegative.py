"""Copies the input, which equals its own ReLU as drawn, with a kernel of its own.

A proper kernel, fully measured, that computes nothing.
"""
# task: gpu_relu
# expect: incorrect

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x, y, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu[(x.numel() // 1024,)](x, y, BLOCK=1024)
        return y
