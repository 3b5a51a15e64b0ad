"""Returns an output of a hundred gigabytes, none of it in memory."""
# task: relu
# expect: incorrect,runtime_error,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(1).expand(25_000_000_000)
