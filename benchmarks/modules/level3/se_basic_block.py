import torch
import torch.nn as nn
import torch.nn.functional as F


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction):
        super().__init__()
        self.down = nn.Linear(channels, channels // reduction)
        self.up = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        s = x.mean(dim=[2, 3])
        s = torch.sigmoid(self.up(F.relu(self.down(s))))
        return x * s[:, :, None, None]


class Model(nn.Module):
    """
    Residual block with two 3x3 convolutions, squeeze-and-excitation and a projected shortcut.
    """

    def __init__(self, in_planes, planes, stride=2, reduction=8):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.se = SqueezeExcite(planes, reduction)
        self.shortcut = nn.Sequential(
            nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False),
            nn.BatchNorm2d(planes),
        )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y = self.se(y)
        return F.relu(y + self.shortcut(x))


in_planes = 64
planes = 128


def get_inputs():
    return [torch.randn(24, in_planes, 96, 96)]


def get_init_inputs():
    return [in_planes, planes]
