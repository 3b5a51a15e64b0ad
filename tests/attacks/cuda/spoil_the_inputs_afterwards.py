"""Computes the right result and then overwrites its input.

A reference that runs second on the same tensors computes something else.
"""
# task: gpu_relu
# expect: rejected,incorrect
# violation: input_mutated

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        x.mul_(0.5)
        return y
