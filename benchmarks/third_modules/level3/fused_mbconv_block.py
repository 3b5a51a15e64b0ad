import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Fused MBConv: a full 3x3 expansion convolution, squeeze-and-excitation on pooled features,
    a 1x1 projection and a skip connection.
    """

    def __init__(self, channels: int, expand_ratio: int, se_ratio: float):
        super(Model, self).__init__()
        hidden = channels * expand_ratio
        reduced = max(1, int(channels * se_ratio))
        self.expand_conv = nn.Conv2d(channels, hidden, 3, padding=1, bias=False)
        self.expand_bn = nn.BatchNorm2d(hidden)
        self.se_reduce = nn.Linear(hidden, reduced)
        self.se_expand = nn.Linear(reduced, hidden)
        self.project_conv = nn.Conv2d(hidden, channels, 1, bias=False)
        self.project_bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.silu(self.expand_bn(self.expand_conv(x)))
        s = F.adaptive_avg_pool2d(y, 1).flatten(1)
        s = torch.sigmoid(self.se_expand(F.silu(self.se_reduce(s))))
        y = y * s.unsqueeze(-1).unsqueeze(-1)
        y = self.project_bn(self.project_conv(y))
        return x + y


batch_size = 40
channels = 48
expand_ratio = 4
se_ratio = 0.25
resolution = 60


def get_inputs():
    return [torch.randn(batch_size, channels, resolution, resolution)]


def get_init_inputs():
    return [channels, expand_ratio, se_ratio]
