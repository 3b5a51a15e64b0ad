import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 3D convolution, swish, group normalisation, addition of a bias volume.
    """

    def __init__(self, in_channels, out_channels, num_groups):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size=4, stride=2, padding=1)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.extra = nn.Parameter(torch.randn(1, out_channels, 1, 1, 1))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = torch.sigmoid(x) * x
        x = self.group_norm(x)
        return x + self.extra


def get_inputs():
    return [torch.randn(8, 32, 10, 28, 28)]


def get_init_inputs():
    return [32, 24, 4]
