import torch
import torch.nn as nn


class Model(nn.Module):
    """ConvTranspose2d, hardtanh, spatial softmax, per-channel scale."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, lo, hi):
        super().__init__()
        self.deconv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride,
                                         padding=padding, output_padding=output_padding)
        self.clip = nn.Hardtanh(lo, hi)
        self.scale = nn.Parameter(torch.full((1, out_channels, 1, 1), 8000.0))

    def forward(self, x):
        x = self.clip(self.deconv(x))
        n, c, h, w = x.shape
        x = torch.softmax(x.view(n, c, h * w), dim=-1).view(n, c, h, w)
        return x * self.scale


batch_size = 64
in_channels = 64
out_channels = 40
height, width = 72, 56
kernel_size, stride, padding, output_padding = 3, 2, 1, 1


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, -2.0, 2.0]
