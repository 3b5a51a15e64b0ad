"""Buffers that are saved, one that is not, and a base class of the file that has the forward."""

import torch
from torch import nn


class Whitening(nn.Module):
    def __init__(self, dim=192):
        super().__init__()
        self.register_buffer("mean", torch.randn(dim))
        self.register_buffer("std", torch.rand(dim) + 0.5)
        self.register_buffer("ramp", torch.linspace(-1, 1, dim), persistent=False)
        self.register_buffer("unused", None)

    def forward(self, x):
        return self.activation((x - self.mean) / self.std + self.ramp)


class TanhWhitening(Whitening):
    def activation(self, x):
        return torch.tanh(x) * 0.5
