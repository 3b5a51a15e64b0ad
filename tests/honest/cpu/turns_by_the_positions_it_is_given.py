"""Rotates each token by the angles of its own position, as complex numbers."""
# task: rotary_positions
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, positions):
        angles = positions[:, None].float() * 10000 ** (-torch.arange(64) / 64)
        turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1)
