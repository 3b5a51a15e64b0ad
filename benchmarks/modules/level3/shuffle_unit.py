import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Shuffle unit: half of the channels pass through, the other half is convolved, then both are shuffled.
    """

    def __init__(self, channels, groups=2):
        super().__init__()
        half = channels // 2
        self.groups = groups
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
        )

    def channel_shuffle(self, x):
        b, c, h, w = x.size()
        x = x.view(b, self.groups, c // self.groups, h, w)
        x = x.transpose(1, 2).contiguous()
        return x.view(b, c, h, w)

    def forward(self, x):
        keep, work = torch.chunk(x, 2, dim=1)
        out = torch.cat((keep, self.branch(work)), dim=1)
        return self.channel_shuffle(out)


channels = 176


def get_inputs():
    return [torch.randn(48, channels, 48, 48)]


def get_init_inputs():
    return [channels]
