import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    3D convolution, group normalisation, SiLU, max pooling.
    """

    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.GroupNorm(groups, out_channels)
        self.pool = nn.MaxPool3d(2)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = F.silu(x)
        return self.pool(x)


in_channels = 16
out_channels = 48
groups = 6


def get_inputs():
    return [torch.randn(8, in_channels, 16, 64, 64)]


def get_init_inputs():
    return [in_channels, out_channels, groups]
