import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(batch_size=12, in_channels=32, out_channels=64, side=48),
    "gpu": dict(batch_size=64, in_channels=128, out_channels=256, side=64),
}


class Model(nn.Module):
    """Depthwise 3x3, pointwise 1x1, hard-swish."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, 3, padding=1, groups=in_channels, bias=False)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1)
        nn.init.normal_(self.depthwise.weight, std=1 / 3)
        nn.init.normal_(self.pointwise.weight, std=in_channels**-0.5)

    def forward(self, x):
        return F.hardswish(self.pointwise(self.depthwise(x)))


def get_inputs():
    return [torch.randn(batch_size, in_channels, side, side)]


def get_init_inputs():
    return [in_channels, out_channels]
