"""Leaves out what changes nothing on the inputs that get_inputs() draws, in a task with infinities in its right answers.

Judge 10 used no variant on which the truth was not finite throughout: behind a mask none at all, and negative inputs were never tried.
"""
# task: masked_relu
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.ones(1024, 1024, dtype=torch.bool).triu(1))

    def forward(self, scores):
        return scores.masked_fill(self.hidden, float("-inf"))
