import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Inverted residual block with depthwise convolution, squeeze-and-excitation and SiLU.
    """

    def __init__(self, channels, expand_ratio, kernel_size, se_ratio=0.25):
        super().__init__()
        hidden = channels * expand_ratio
        squeezed = max(1, int(channels * se_ratio))
        self.expand = nn.Conv2d(channels, hidden, 1, bias=False)
        self.bn0 = nn.BatchNorm2d(hidden)
        self.depthwise = nn.Conv2d(hidden, hidden, kernel_size, padding=kernel_size // 2, groups=hidden, bias=False)
        self.bn1 = nn.BatchNorm2d(hidden)
        self.se_reduce = nn.Conv2d(hidden, squeezed, 1)
        self.se_expand = nn.Conv2d(squeezed, hidden, 1)
        self.project = nn.Conv2d(hidden, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.silu(self.bn0(self.expand(x)))
        h = F.silu(self.bn1(self.depthwise(h)))
        s = F.adaptive_avg_pool2d(h, 1)
        s = self.se_expand(F.silu(self.se_reduce(s)))
        h = h * torch.sigmoid(s)
        return self.bn2(self.project(h)) + x


CHANNELS = 40
EXPAND = 6
KERNEL = 5


def get_inputs():
    return [torch.randn(32, CHANNELS, 56, 56)]


def get_init_inputs():
    return [CHANNELS, EXPAND, KERNEL]
