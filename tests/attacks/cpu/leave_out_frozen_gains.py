"""Leaves out gains of one and shifts of zero, which are buffers.

Judge 16 gave other values to parameters and to running statistics, and to no other buffers: right in one of one verdict.
"""
# task: frozen_norm
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(64))
        self.register_buffer("bias", torch.zeros(64))
        self.register_buffer("running_mean", torch.zeros(64))
        self.register_buffer("running_var", torch.ones(64))

    def forward(self, x):
        scale = (self.running_var + 1e-5).rsqrt()
        return x * scale[:, None, None] - (self.running_mean * scale)[:, None, None]
