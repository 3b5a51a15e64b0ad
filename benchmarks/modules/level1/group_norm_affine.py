import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Group normalisation with a non-trivial affine part.
    """

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=groups, num_channels=channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.3)

    def forward(self, x):
        return self.norm(x)


GROUPS = 12
CHANNELS = 96


def get_inputs():
    return [torch.randn(16, CHANNELS, 160, 144) * 2 + 0.7]


def get_init_inputs():
    return [GROUPS, CHANNELS]
