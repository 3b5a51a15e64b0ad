"""Finds the judge's output buffer on the stack and computes straight into it, so that copying out costs nothing.

The baseline has to pay for the copy; a candidate that dodges it looks faster by exactly that much.
"""
# task: relu
# expect: slower,same,ambiguous,rejected

import sys

import torch
from torch import nn


def output_buffer(x):
    frame = sys._getframe(1)
    while frame is not None:
        arena = getattr(frame.f_locals.get("self"), "outputs", None)
        if arena is not None:
            return arena.base[: x.numel() * 4].view(torch.float32).view_as(x)
        frame = frame.f_back
    return torch.empty_like(x)


class ModelNew(nn.Module):
    def forward(self, x):
        target = output_buffer(x)
        for _ in range(4):
            target.copy_(torch.relu(x))
        return target
