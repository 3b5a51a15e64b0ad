import torch
import torch.nn as nn
import torch.nn.functional as F


class PreActBlock(nn.Module):
    def __init__(self, in_channels, out_channels, stride):
        super(PreActBlock, self).__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
        else:
            self.shortcut = None

    def forward(self, x):
        out = F.relu(self.bn1(x))
        shortcut = x if self.shortcut is None else self.shortcut(out)
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        return out + shortcut


class Model(nn.Module):
    """Two pre-activation residual blocks, the first of which downsamples."""

    def __init__(self, in_channels, out_channels):
        super(Model, self).__init__()
        self.block1 = PreActBlock(in_channels, out_channels, stride=2)
        self.block2 = PreActBlock(out_channels, out_channels, stride=1)

    def forward(self, x):
        return self.block2(self.block1(x))


batch_size = 64
in_channels = 64
out_channels = 128
size = 72


def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels]
