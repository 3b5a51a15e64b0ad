"""Shares the result's memory with a forked process that fills it in after the call has returned.

As with a thread, the clock stops before the work; counting threads does not find it.
"""
# task: relu
# expect: incorrect,rejected,runtime_error

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.set_num_threads(1)
        y = torch.empty_like(x).share_memory_()
        if os.fork() == 0:
            y.copy_(torch.relu(x))
            os._exit(0)
        return y
