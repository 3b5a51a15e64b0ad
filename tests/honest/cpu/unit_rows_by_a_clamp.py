"""The least length is that of the reference."""
# task: unit_rows
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / x.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-12)
