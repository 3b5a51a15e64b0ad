import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Reflection padding, convolution, signed square root, group norm, hardswish.
    """

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super(Model, self).__init__()
        self.pad = nn.ReflectionPad2d(kernel_size // 2)
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.gn = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        x = self.conv(self.pad(x))
        x = torch.sign(x) * torch.sqrt(x.abs() + 1e-6)
        return F.hardswish(self.gn(x))


batch_size = 24
in_channels = 48
out_channels = 96
height = 120
width = 136
kernel_size = 3
num_groups = 12


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
