import torch
import torch.nn as nn


class Model(nn.Module):
    """Upsampling by a transposed 1D convolution, noise-like additive input, snake, tanh."""

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.up = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride,
                                     padding=(kernel_size - stride) // 2)
        self.log_alpha = nn.Parameter(torch.zeros(1, out_channels, 1))

    def forward(self, x, excitation):
        h = self.up(x) + excitation
        alpha = torch.exp(self.log_alpha)
        h = h + torch.square(torch.sin(h * alpha)) / (alpha + 1e-9)
        return h.tanh()


batch_size = 32
in_channels = 192
out_channels = 96
frames = 1600
kernel_size = 16
stride = 8


def get_inputs():
    return [
        torch.randn(batch_size, in_channels, frames),
        0.1 * torch.randn(batch_size, 1, frames * stride),
    ]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
