import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolution followed by tanh-GELU; the result is weighted with its own softmax over channels.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=2)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x):
        y = self.gelu(self.conv(x))
        weights = torch.softmax(y, dim=1)
        return y * weights * y.shape[1]


batch_size = 64
in_channels = 16
out_channels = 96
kernel_size = 5
stride = 2
height, width = 160, 192


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
