"""NaN by comparison with itself."""
# task: missing_values
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, 0.0)
