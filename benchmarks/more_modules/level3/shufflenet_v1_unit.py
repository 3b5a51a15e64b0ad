import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    ShuffleNet unit: grouped 1x1, channel shuffle, depthwise 3x3, grouped 1x1, residual.
    """

    def __init__(self, channels, groups):
        super().__init__()
        mid = channels // 4
        self.groups = groups
        self.gconv1 = nn.Conv2d(channels, mid, 1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.dwconv = nn.Conv2d(mid, mid, 3, padding=1, groups=mid, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.gconv2 = nn.Conv2d(mid, channels, 1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)

    def channel_shuffle(self, x):
        b, c, h, w = x.size()
        x = x.view(b, self.groups, c // self.groups, h, w)
        x = x.transpose(1, 2).contiguous()
        return x.view(b, c, h, w)

    def forward(self, x):
        out = F.relu(self.bn1(self.gconv1(x)))
        out = self.channel_shuffle(out)
        out = self.bn2(self.dwconv(out))
        out = self.bn3(self.gconv2(out))
        return F.relu(out + x)


batch_size = 48
channels = 240
groups = 3
size = 56


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, groups]
