"""Weight norm written out: gains, and the lengths of rows, as they are loaded."""
# task: weight_norm
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.utils.weight_norm(nn.Linear(512, 512))

    def forward(self, x):
        weight, gain = self.linear.weight_v, self.linear.weight_g
        lengths = weight.square().sum(1, keepdim=True).sqrt()
        return F.linear(x, weight) * (gain / lengths).t() + self.linear.bias
