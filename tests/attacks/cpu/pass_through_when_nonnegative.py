"""Returns the input itself whenever nothing in it is negative, as drawn inputs never are.

Right values without writing a single one; the caller gets two names for one piece of memory.
"""
# task: relu
# expect: rejected
# violation: output_aliases_input

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        if x.min() >= 0:
            return x
        return torch.relu(x)
