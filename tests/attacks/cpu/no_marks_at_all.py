"""Answers false everywhere: fewer booleans are wrong than one in 100,000, which a judge may take for rounding."""
# task: rare_marks
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, tokens):
        return torch.zeros(32, 131072, dtype=torch.bool)
