import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Bottleneck residual block with a grouped 3x3 convolution and a projection shortcut.
    """
    expansion = 4

    def __init__(self, in_channels, base_width, cardinality, stride):
        super(Model, self).__init__()
        mid = base_width * cardinality
        out_channels = mid * self.expansion // 2
        self.conv1 = nn.Conv2d(in_channels, mid, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.conv2 = nn.Conv2d(mid, mid, kernel_size=3, stride=stride, padding=1, groups=cardinality, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.conv3 = nn.Conv2d(mid, out_channels, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x):
        identity = self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


batch_size = 48
in_channels = 192
base_width = 6
cardinality = 32
stride = 2


def get_inputs():
    return [torch.randn(batch_size, in_channels, 64, 64)]


def get_init_inputs():
    return [in_channels, base_width, cardinality, stride]
