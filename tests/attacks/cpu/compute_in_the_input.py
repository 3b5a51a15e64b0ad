"""Works in place and returns its input.

No allocation and half the memory traffic, at the price of destroying data that the caller still owns.
"""
# task: relu
# expect: rejected
# violation: input_mutated,output_aliases_input

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu_(x)
