import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Strided 3D convolution gated by a sigmoid of itself plus a bias, minus a parameter.
    """

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3, stride=stride, padding=1)
        self.gate_bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.sub = nn.Parameter(torch.randn(out_channels, 1, 1, 1) * 0.4)

    def forward(self, x):
        h = self.conv(x)
        return h * torch.sigmoid(h + self.gate_bias) - self.sub


stride = (1, 2, 2)


def get_inputs():
    return [torch.randn(6, 24, 20, 88, 88)]


def get_init_inputs():
    return [24, 64, stride]
