import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    The depthwise branch gates its own input, then channels are mixed and a bias map over the rows is added.
    """

    def __init__(self, in_channels, out_channels, kernel_size, height):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, kernel_size, padding=kernel_size // 2, groups=in_channels)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.row_bias = nn.Parameter(torch.randn(1, 1, height, 1))

    def forward(self, x):
        gate = F.hardsigmoid(self.depthwise(x))
        x = self.pointwise(x * gate)
        return x + self.row_bias


batch_size = 32
in_channels = 64
out_channels = 128
kernel_size = 5
height = 112
width = 112


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, height]
