"""Leaves detached processes behind that burn every core, except while the candidate itself is called.

The baseline shares the machine with them, the candidate does not: four times slower against a baseline ten times slower.
"""
# task: relu
# expect: slower,ambiguous,rejected,runtime_error

import mmap
import os
import time

import torch
from torch import nn

resting = mmap.mmap(-1, 1)


def burn():
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if not resting[0]:
            sum(range(20_000))
    os._exit(0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for _ in range(2 * (os.cpu_count() or 1)):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    burn()
                os._exit(0)
            os.wait()

    def forward(self, x):
        resting[0] = 1
        y = torch.relu(torch.relu(torch.relu(x)))
        resting[0] = 0
        return y
