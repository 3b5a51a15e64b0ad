"""Arguments by keyword only, in constructor and call."""

import torch
from torch import nn


class Modulate(nn.Module):
    def __init__(self, *, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, *, shift, scale, gate=None):
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight
        x = x * (1 + scale[:, None]) + shift[:, None]
        return x if gate is None else x * gate[:, None]
