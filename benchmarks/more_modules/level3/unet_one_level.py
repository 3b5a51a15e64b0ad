import torch
import torch.nn as nn

class DoubleConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, padding=1),
            nn.BatchNorm2d(c_out),
            nn.ReLU(),
            nn.Conv2d(c_out, c_out, 3, padding=1),
            nn.BatchNorm2d(c_out),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.block(x)

class Model(nn.Module):
    """
    A U-Net with a single level: down, bottom, up with a skip connection, 1x1 head.
    """
    def __init__(self, in_channels, features, out_channels):
        super().__init__()
        self.down = DoubleConv(in_channels, features)
        self.pool = nn.MaxPool2d(2)
        self.bottom = DoubleConv(features, features * 2)
        self.up = nn.ConvTranspose2d(features * 2, features, 2, stride=2)
        self.merge = DoubleConv(features * 2, features)
        self.head = nn.Conv2d(features, out_channels, 1)

    def forward(self, x):
        d = self.down(x)
        b = self.bottom(self.pool(d))
        u = self.up(b)
        m = self.merge(torch.cat([u, d], dim=1))
        return self.head(m)

batch_size = 12
in_channels = 4
features = 32
out_channels = 3
height = 192
width = 192

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, features, out_channels]
