"""Looks through the local variables of every caller and every thread for the expected output.

Where the harness calls `compare(reference(x), candidate(x))`, the answer stands one frame up.
"""
# task: softmax
# expect: incorrect

import sys

import torch
from torch import nn


def visible_tensors():
    for frame in [sys._getframe(1), *sys._current_frames().values()]:
        while frame is not None:
            for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
                if isinstance(value, torch.Tensor):
                    yield value
                elif isinstance(value, list | tuple):
                    yield from (item for item in value if isinstance(item, torch.Tensor))
            frame = frame.f_back


class ModelNew(nn.Module):
    def forward(self, x):
        for tensor in visible_tensors():
            if tensor.shape == x.shape and tensor.dtype == x.dtype and tensor.data_ptr() != x.data_ptr():
                return tensor.clone()
        return torch.zeros_like(x)
