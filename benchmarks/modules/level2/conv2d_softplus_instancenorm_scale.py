import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Convolution, softplus, instance normalisation, then a learned scale per channel.
    """

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.norm = nn.InstanceNorm2d(out_channels)
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        x = self.conv(x)
        x = F.softplus(x)
        x = self.norm(x)
        return x * self.scale


in_channels = 32
out_channels = 72
kernel_size = 3


def get_inputs():
    return [torch.randn(24, in_channels, 112, 112)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
