import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolution to twice the channels, one half gates the other, scaled by a parameter.
    """

    def __init__(self, channels, hidden):
        super(Model, self).__init__()
        self.proj = nn.Conv2d(channels, 2 * hidden, kernel_size=3, padding=1)
        self.gain = nn.Parameter(torch.rand(hidden, 1, 1) + 0.5)

    def forward(self, x):
        value, gate = self.proj(x).chunk(2, dim=1)
        return value * torch.sigmoid(gate) * self.gain


channels = 40
hidden = 56
batch = 16


def get_inputs():
    return [torch.randn(batch, channels, 128, 120)]


def get_init_inputs():
    return [channels, hidden]
