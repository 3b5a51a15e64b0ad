import torch
from torch import nn

from shop.blocks import gate


class ScaledNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return gate.gated(x / (x.norm(dim=-1, keepdim=True) + self.eps) * self.scale)
