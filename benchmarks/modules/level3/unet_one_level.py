import torch
import torch.nn as nn


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.GroupNorm(8, cout),
            nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.GroupNorm(8, cout),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.block(x)


class Model(nn.Module):
    """
    A U-Net with one level: double convolutions, max pooling, transposed convolution and a skip.
    """

    def __init__(self, in_channels, base, num_classes):
        super().__init__()
        self.inc = DoubleConv(in_channels, base)
        self.pool = nn.MaxPool2d(2)
        self.mid = DoubleConv(base, base * 2)
        self.up = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec = DoubleConv(base * 2, base)
        self.outc = nn.Conv2d(base, num_classes, 1)

    def forward(self, x):
        skip = self.inc(x)
        y = self.mid(self.pool(skip))
        y = self.up(y)
        y = torch.cat([skip, y], dim=1)
        return self.outc(self.dec(y))


in_channels = 3
base = 40
num_classes = 6


def get_inputs():
    return [torch.randn(8, in_channels, 160, 160)]


def get_init_inputs():
    return [in_channels, base, num_classes]
