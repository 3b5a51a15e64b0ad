"""Leaves out a cap that no input reaches, in a task that has no answer to negative inputs.

Judge 10 changed signs in three of four variants, in the one of a quick verdict too: all were skipped where a logarithm is taken.
"""
# task: capped_logarithm
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.log(x)
