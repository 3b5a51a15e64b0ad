import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Bottleneck residual block (1x1, grouped 3x3, 1x1) with identity shortcut.
    """

    expansion = 4

    def __init__(self, channels, groups=1):
        super().__init__()
        mid = channels // self.expansion
        self.reduce = self._conv_bn(channels, mid, 1)
        self.spatial = self._conv_bn(mid, mid, 3, groups)
        self.restore = self._conv_bn(mid, channels, 1)
        self.relu = nn.ReLU()

    def _conv_bn(self, cin, cout, k, groups=1):
        return nn.Sequential(
            nn.Conv2d(cin, cout, k, padding=k // 2, groups=groups, bias=False),
            nn.BatchNorm2d(cout),
        )

    def forward(self, x):
        identity = x
        x = self.relu(self.reduce(x))
        x = self.relu(self.spatial(x))
        x = self.restore(x)
        x = x + identity
        return self.relu(x)


channels = 320
groups = 2


def get_inputs():
    return [torch.randn(32, channels, 48, 48)]


def get_init_inputs():
    return [channels, groups]
