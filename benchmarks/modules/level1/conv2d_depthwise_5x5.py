import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Depthwise 5x5 convolution.
    """

    def __init__(self, channels: int, kernel_size: int = 5):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dw(x)


batch = 16
channels = 192
height = 104
width = 120


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
