import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Half precision: convolution, bias, GELU, max pooling.
    """

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False, dtype=torch.float16)
        self.bias = nn.Parameter((torch.randn(out_channels, 1, 1) * 0.5).half())

    def forward(self, x):
        x = self.conv(x) + self.bias
        x = F.gelu(x, approximate="tanh")
        return F.max_pool2d(x, 2)


def get_inputs():
    return [torch.randn(32, 64, 128, 128).half()]


def get_init_inputs():
    return [64, 128]
