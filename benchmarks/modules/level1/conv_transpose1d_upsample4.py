import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 1D convolution which upsamples by four.
    """

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.up = nn.ConvTranspose1d(channels_in, channels_out, kernel_size=8, stride=4, padding=2)

    def forward(self, x):
        return self.up(x)


channels_in = 128
channels_out = 64


def get_inputs():
    return [torch.randn(24, channels_in, 5000)]


def get_init_inputs():
    return [channels_in, channels_out]
