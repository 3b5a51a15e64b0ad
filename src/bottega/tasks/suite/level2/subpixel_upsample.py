import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=6, channels=24, out_channels=8, height=64, width=48),
    "gpu": dict(batch=32, channels=64, out_channels=32, height=160, width=120),
}
factor = 2


class Model(nn.Module):
    """Convolve, spread channels over pixels, PReLU with a slope per channel."""

    def __init__(self, channels: int, out_channels: int, factor: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, out_channels * factor**2, kernel_size=3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)
        self.act = nn.PReLU(out_channels)
        nn.init.uniform_(self.act.weight, 0.05, 0.6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.shuffle(self.conv(x)))


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, out_channels, factor]
