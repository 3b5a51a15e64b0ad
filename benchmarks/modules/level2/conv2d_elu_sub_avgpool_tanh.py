import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolution, ELU, subtraction of a constant, average pooling, tanh.
    """

    def __init__(self, cin, cout, subtract=0.3, pool=2):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 5, padding=2)
        self.elu = nn.ELU()
        self.pool = nn.AvgPool2d(pool)
        self.subtract = subtract

    def forward(self, x):
        y = self.elu(self.conv(x)) - self.subtract
        return torch.tanh(self.pool(y))


CIN = 16
COUT = 64
BATCH = 32
SIDE = 112


def get_inputs():
    return [torch.randn(BATCH, CIN, SIDE, SIDE) * 1.5]


def get_init_inputs():
    return [CIN, COUT, 0.45]
