import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Depthwise convolution, ReLU6, pointwise convolution, residual addition, hard swish.
    """

    def __init__(self, channels):
        super().__init__()
        self.depth_conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.point_conv = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        y = F.relu6(self.depth_conv(x) * 4.0)
        y = self.point_conv(y)
        return F.hardswish(x + y)


channels = 96


def get_inputs():
    return [torch.randn(16, channels, 112, 96)]


def get_init_inputs():
    return [channels]
