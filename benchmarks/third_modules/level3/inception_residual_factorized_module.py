import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvBN(nn.Module):
    def __init__(self, cin, cout, kernel, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(cout, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Model(nn.Module):
    """
    Inception module with factorised 1x7 / 7x1 convolutions, merged by a 1x1 convolution
    and added to the input with a small scale.
    """

    def __init__(self, channels, branch, scale):
        super().__init__()
        self.branch0 = ConvBN(channels, branch, 1)
        self.branch1 = nn.Sequential(
            ConvBN(channels, branch, 1),
            ConvBN(branch, branch, (1, 7), padding=(0, 3)),
            ConvBN(branch, branch, (7, 1), padding=(3, 0)),
        )
        self.branch2 = nn.Sequential(
            nn.AvgPool2d(3, stride=1, padding=1),
            ConvBN(channels, branch // 2, 1),
        )
        self.merge = nn.Conv2d(2 * branch + branch // 2, channels, 1)
        self.scale = scale

    def forward(self, x):
        mixed = torch.cat([self.branch0(x), self.branch1(x), self.branch2(x)], dim=1)
        return F.relu(x + self.scale * self.merge(mixed))


batch_size = 64
channels = 320
branch = 96
size = 35


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, branch, 0.2]
