"""The two logarithms held at -100, the second one by log1p."""
# task: cross_entropy_of_shares
# expect: faster,same,slower,ambiguous
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, shares, targets):
        first, second = shares.log().clamp_(min=-100), torch.log1p(-shares).clamp_(min=-100)
        return torch.lerp(second, first, targets).neg_()
