import torch
import torch.nn as nn


def channel_shuffle(x, groups):
    n, c, h, w = x.size()
    x = x.view(n, groups, c // groups, h, w)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(n, c, h, w)


class Unit(nn.Module):
    """Channel split, a branch of 1x1 / depthwise / 1x1 convolutions, concatenation, shuffle."""

    def __init__(self, channels):
        super(Unit, self).__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        out = torch.cat((left, self.branch(right)), dim=1)
        return channel_shuffle(out, 2)


class Model(nn.Module):
    def __init__(self, channels, num_units):
        super(Model, self).__init__()
        self.units = nn.Sequential(*[Unit(channels) for _ in range(num_units)])

    def forward(self, x):
        return self.units(x)


batch_size = 96
channels = 176
num_units = 3
height = width = 40


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, num_units]
