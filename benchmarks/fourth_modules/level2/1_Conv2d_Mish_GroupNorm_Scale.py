import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Convolution, Mish, group normalization and a learned scale per channel.
    """
    def __init__(self, in_channels, out_channels, kernel_size, num_groups, scale_shape):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.gn = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.randn(scale_shape))

    def forward(self, x):
        x = self.conv(x)
        x = torch.nn.functional.mish(x)
        x = self.gn(x)
        x = x * self.scale
        return x

batch_size = 64
in_channels = 32
out_channels = 96
height, width = 96, 96
kernel_size = 3
num_groups = 12
scale_shape = (out_channels, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, scale_shape]
