"""Writes to standard error in every call, without ever ending the line."""
# task: relu
# expect: slower,ambiguous,runtime_error,timeout,rejected
# options: timeout=20

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.write(2, b"." * (1 << 16))
        return torch.relu(torch.relu(torch.relu(x)))
