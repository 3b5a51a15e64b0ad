import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Inception module with four branches: 1x1, 3x3, factorised 5x5, and average pooling.
    """

    def __init__(self, in_channels, b1, b3_reduce, b3, b5_reduce, b5, pool_proj):
        super(Model, self).__init__()
        self.branch1 = nn.Conv2d(in_channels, b1, 1)
        self.branch3_reduce = nn.Conv2d(in_channels, b3_reduce, 1)
        self.branch3 = nn.Conv2d(b3_reduce, b3, 3, padding=1)
        self.branch5_reduce = nn.Conv2d(in_channels, b5_reduce, 1)
        self.branch5_a = nn.Conv2d(b5_reduce, b5, (1, 5), padding=(0, 2))
        self.branch5_b = nn.Conv2d(b5, b5, (5, 1), padding=(2, 0))
        self.pool = nn.AvgPool2d(kernel_size=3, stride=1, padding=1)
        self.pool_proj = nn.Conv2d(in_channels, pool_proj, 1)

    def forward(self, x):
        y1 = F.relu(self.branch1(x))
        y2 = F.relu(self.branch3(F.relu(self.branch3_reduce(x))))
        y3 = F.relu(self.branch5_reduce(x))
        y3 = F.relu(self.branch5_b(self.branch5_a(y3)))
        y4 = F.relu(self.pool_proj(self.pool(x)))
        return torch.cat((y1, y2, y3, y4), dim=1)


in_channels = 160


def get_inputs():
    return [torch.randn(24, in_channels, 56, 56) * 2]


def get_init_inputs():
    return [in_channels, 64, 80, 96, 24, 48, 32]
