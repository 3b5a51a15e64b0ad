import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Convolution, softplus, learned per-channel scale, instance normalisation, clamp.
    """

    def __init__(self, in_channels, out_channels, kernel_size, scale_shape, low, high):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale = nn.Parameter(torch.randn(scale_shape))
        self.norm = nn.InstanceNorm2d(out_channels, affine=True)
        self.low = low
        self.high = high

    def forward(self, x):
        x = self.conv(x)
        x = F.softplus(x)
        x = x * self.scale
        x = self.norm(x)
        x = torch.clamp(x, self.low, self.high)
        return x


batch_size = 32
in_channels = 24
out_channels = 64
height = width = 162
kernel_size = 3
scale_shape = (out_channels, 1, 1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, scale_shape, -1.5, 2.0]
