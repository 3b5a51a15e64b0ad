import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Linear layer, RMS normalisation, residual addition, SiLU.
    """

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)
        self.eps = eps
        self.act = nn.SiLU()

    def _rms(self, h):
        return h * torch.rsqrt(h.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight

    def forward(self, x):
        return self.act(self._rms(self.proj(x)) + x)


DIM = 1408


def get_inputs():
    return [torch.randn(16, 512, DIM)]


def get_init_inputs():
    return [DIM]
