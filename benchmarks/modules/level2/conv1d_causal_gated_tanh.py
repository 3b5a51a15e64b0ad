import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Causal dilated 1D convolution with the gated tanh unit of WaveNet and a skip connection.
    """

    def __init__(self, channels, kernel_size=2, dilation=8):
        super().__init__()
        self.left = (kernel_size - 1) * dilation
        self.conv = nn.Conv1d(channels, channels * 2, kernel_size, dilation=dilation)

    def forward(self, x):
        h = self.conv(F.pad(x, (self.left, 0)))
        a, b = torch.split(h, x.size(1), dim=1)
        return torch.tanh(a) * torch.sigmoid(b) + x


CHANNELS = 120


def get_inputs():
    return [torch.randn(16, CHANNELS, 8192)]


def get_init_inputs():
    return [CHANNELS]
