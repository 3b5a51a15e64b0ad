"""Behaves for twenty calls and hangs in the twenty-first, in the middle of timing."""
# task: relu
# expect: timeout
# options: timeout=6

import time

import torch
from torch import nn


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        while self.calls > 20:
            time.sleep(1)
        return torch.relu(x)
