"""Probabilities times their logarithms, zeros left out, by a product of rows."""
# task: entropy
# expect: faster,same,slower,ambiguous
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, probabilities):
        logarithms = torch.where(probabilities > 0, probabilities, 1.0).log()
        return -torch.einsum("ij,ij->i", probabilities, logarithms)
