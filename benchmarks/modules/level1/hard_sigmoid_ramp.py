import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Hard sigmoid: a clamped linear ramp.
    """

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.clamp(x / 6 + 0.5, min=0.0, max=1.0)


def get_inputs():
    return [torch.randn(24, 128, 96, 128) * 2.5]


def get_init_inputs():
    return []
