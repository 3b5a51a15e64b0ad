import torch
import torch.nn as nn


class Model(nn.Module):
    """
    1D convolution with stride, dilation and padding, without a bias.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation):
        super(Model, self).__init__()
        self.conv = nn.Conv1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=False,
        )

    def forward(self, x):
        return self.conv(x)


batch_size = 64
in_channels = 96
out_channels = 160
kernel_size = 7
length = 16384
stride = 2
padding = 6
dilation = 3


def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
