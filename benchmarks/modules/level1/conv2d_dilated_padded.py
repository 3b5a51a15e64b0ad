import torch
import torch.nn as nn


class Model(nn.Module):
    """
    2D convolution with different padding and dilation in the two directions.
    """

    def __init__(self, in_channels, out_channels, kernel_size, padding=(0, 0), dilation=(1, 1), bias=False):
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x):
        return self.conv2d(x)


in_channels = 56
out_channels = 96
kernel_size = 3
padding = (2, 4)
dilation = (2, 3)


def get_inputs():
    return [torch.randn(12, in_channels, 144, 128)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding, dilation]
