import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Grouped, strided transposed 1D convolution with output padding.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups):
        super(Model, self).__init__()
        self.up = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
        )

    def forward(self, x):
        return self.up(x)


batch_size = 32
in_channels = 128
out_channels = 64
seq_len = 12288
kernel_size = 8
stride = 4
padding = 2
output_padding = 1
groups = 2


def get_inputs():
    return [torch.rand(batch_size, in_channels, seq_len)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, groups]
