import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Depthwise 3D convolution with an explicit weight."""

    def __init__(self, channels, kernel_size, padding):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, *kernel_size) * 0.1)
        self.padding = padding
        self.channels = channels

    def forward(self, x):
        return F.conv3d(x, self.weight, bias=None, padding=self.padding, groups=self.channels)


N = 20
channels = 48
D, H, W = 24, 64, 72
kernel_size = (3, 3, 3)
padding = (1, 1, 1)


def get_inputs():
    return [torch.randn(N, channels, D, H, W)]


def get_init_inputs():
    return [channels, kernel_size, padding]
