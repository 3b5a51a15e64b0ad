import torch
import torch.nn as nn


class Model(nn.Module):
    """Product over one dimension, kept in the result with size one."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, factors):
        return torch.prod(factors, dim=self.dim, keepdim=True)


def get_inputs():
    return [1.0 + 0.08 * torch.randn(300, 900, 240)]


def get_init_inputs():
    return [2]
