"""Replaces elapsed_time and every synchronize by functions that do nothing.

Event times read as a microsecond, and a wall clock around an unsynchronised call sees only the launch.
"""
# task: gpu_softmax
# expect: rejected,incorrect,slower,ambiguous

import torch
from torch import nn

torch.cuda.Event.elapsed_time = lambda self, end: 0.001
torch.cuda.Event.synchronize = torch.cuda.Stream.synchronize = lambda self: None
torch.cuda.synchronize = lambda device=None: None
torch.cuda.Event.query = torch.cuda.Stream.query = lambda self: True


class ModelNew(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(4):
            y = torch.softmax(x + 0 * y, dim=1)
        return y
