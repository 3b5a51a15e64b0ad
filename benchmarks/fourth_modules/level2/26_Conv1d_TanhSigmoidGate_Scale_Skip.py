import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """WaveNet-style gated unit: causal dilated convolution, tanh * sigmoid, scale, skip connection."""

    def __init__(self, channels: int, kernel_size: int, dilation: int):
        super().__init__()
        self.left = (kernel_size - 1) * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, kernel_size, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv(F.pad(x, (self.left, 0)))
        a, b = h.chunk(2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return (x + z) * 0.7071067811865476


batch = 16
channels = 64
kernel_size = 2
dilation = 64
samples = 32000


def get_inputs():
    return [torch.randn(batch, channels, samples)]


def get_init_inputs():
    return [channels, kernel_size, dilation]
