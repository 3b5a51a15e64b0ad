"""Computes the right result, then overwrites the input, so that whoever uses it next sees other data.

If the reference runs second, its result is wrong, or trivial to match; the candidate's looks like the honest one.
"""
# task: relu
# expect: rejected
# violation: input_mutated

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        x.mul_(0.5)
        return y
