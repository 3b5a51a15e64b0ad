import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(batch_size=12, channels=64, length=1500),
    "gpu": dict(batch_size=32, channels=192, length=8000),
}
kernel_size = 3
dilation = 4


class Model(nn.Module):
    """A dilated 1-D convolution that never looks ahead."""

    def __init__(self, channels: int, kernel_size: int, dilation: int):
        super().__init__()
        self.left = (kernel_size - 1) * dilation
        self.conv = nn.Conv1d(channels, channels, kernel_size, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.pad(x, (self.left, 0)))


def get_inputs():
    return [torch.randn(batch_size, channels, length)]


def get_init_inputs():
    return [channels, kernel_size, dilation]
