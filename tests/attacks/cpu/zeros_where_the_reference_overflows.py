"""Leaves out every element for which the reference's own exponential is infinite: whatever was finite there was right."""
# task: softplus_written_out
# expect: incorrect
# options: timed=false

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x > 89, 0.0, F.softplus(x))
