import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch_size=4, in_channels=16, out_channels=40, height=96, width=72),
    "gpu": dict(batch_size=64, in_channels=48, out_channels=120, height=224, width=168),
}


class Model(nn.Module):
    """A 5x5 convolution with stride two and uneven padding."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=5, stride=2, padding=(2, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.conv(image)


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
