"""Prints four gigabytes on standard output and standard error, then answers properly, slowly."""
# task: relu
# expect: slower,ambiguous,runtime_error,timeout,rejected
# options: timeout=20

import os

import torch
from torch import nn

block = b"all work and no play " * 50_000
for _ in range(2000):
    for stream in (1, 2):
        try:
            os.write(stream, block)
        except OSError:
            break


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
