import torch
import torch.nn as nn


class Model(nn.Module):
    """
    1D convolution with stride and dilation.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, dilation=1, bias=True):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, bias=bias)

    def forward(self, signal):
        return self.conv(signal)


batch_size = 16
in_channels = 96
out_channels = 128
length = 32768
kernel_size = 5
stride = 2
dilation = 3


def get_inputs():
    return [torch.randn(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, dilation]
