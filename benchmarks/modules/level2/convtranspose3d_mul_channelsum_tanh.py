import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 3D convolution, multiplication with a parameter, sum over the channels, tanh.
    """

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.t_conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size=2, stride=2)
        self.mult = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        y = torch.abs(self.t_conv(x)) * self.mult
        y = y.sum(dim=1, keepdim=True)
        return torch.tanh(y)


in_channels = 40
out_channels = 16


def get_inputs():
    return [torch.randn(8, in_channels, 16, 36, 40)]


def get_init_inputs():
    return [in_channels, out_channels]
