"""A stem: convolution, batch norm with frozen statistics, ReLU, overlapping max pool."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=4, in_channels=3, out_channels=48, side=96),
    "gpu": dict(batch=64, in_channels=3, out_channels=96, side=256),
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 5, stride=2, padding=2, bias=False)
        self.gain = nn.Parameter(torch.rand(out_channels) + 0.5)
        self.offset = nn.Parameter(torch.randn(out_channels) * 0.3)
        self.register_buffer("mean", torch.randn(out_channels) * 0.3)
        self.register_buffer("variance", torch.rand(out_channels) * 0.5 + 0.1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = nn.functional.batch_norm(x, self.mean, self.variance, self.gain, self.offset, training=False, eps=1e-3)
        return self.pool(torch.relu(x))


def get_inputs():
    return [torch.randn(batch, in_channels, side, side)]


def get_init_inputs():
    return [in_channels, out_channels]
