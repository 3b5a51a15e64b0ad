"""No kernel of its own: the same library operators, arranged so that one temporary disappears."""
# task: linear_gelu
# expect: faster,same,slower,ambiguous

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, x):
        hidden = torch.addmm(self.linear.bias, x, self.linear.weight.t())
        return torch._C._nn.gelu_(hidden) if hasattr(torch._C._nn, "gelu_") else nn.functional.gelu(hidden)
