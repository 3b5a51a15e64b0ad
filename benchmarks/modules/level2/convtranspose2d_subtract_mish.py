import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed convolution, subtraction of a parameter, mish.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super(Model, self).__init__()
        self.conv_t = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.shift = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        return F.mish(self.conv_t(x) - self.shift)


batch_size = 16
in_channels = 48
out_channels = 40
size = 56


def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size) * 2]


def get_init_inputs():
    return [in_channels, out_channels, 5, 3]
