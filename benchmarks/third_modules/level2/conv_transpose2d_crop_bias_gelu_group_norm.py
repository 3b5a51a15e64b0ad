import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed convolution, crop of one pixel at each border, bias, GELU, group norm.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride, bias_shape, num_groups):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = x[:, :, 1:-1, 1:-1]
        x = F.gelu(x + self.bias)
        return self.group_norm(x)


batch_size = 32
in_channels = 96
out_channels = 48
height = width = 80
kernel_size = 4
stride = 2
bias_shape = (out_channels, 1, 1)
num_groups = 6


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, bias_shape, num_groups]
