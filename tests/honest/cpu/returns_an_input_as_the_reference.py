"""Returns an input as the reference does, and beside it memory of its own."""
# task: returns_an_input_too
# expect: faster, same, slower, ambiguous
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, places, marks):
        found = torch.zeros(1024, 8192)
        found[torch.arange(1024), places[:, 0]] = marks[:, 0]
        return x, found
