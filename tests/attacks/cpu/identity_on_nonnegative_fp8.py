"""Leaves the ReLU out: no eight-bit number that the task draws is negative.

Floats of eight bits were never varied, so that every verdict of judge 12 and the first form of 13 called it right.
"""
# task: fp8_relu
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, scale):
        return x.to(torch.float32) * scale
