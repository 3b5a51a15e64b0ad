"""Exponentials of the inputs as they are: one pass less, and infinite beyond 88.

A quick verdict of judge 11 had no input above 60, and a full one none on inputs between 0 and 1.
"""
# task: softmax
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = torch.exp(x)
        return powers / powers.sum(-1, keepdim=True)
