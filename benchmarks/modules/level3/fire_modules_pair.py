import torch
import torch.nn as nn


class Fire(nn.Module):
    def __init__(self, cin, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeeze, kernel_size=1)
        self.left = nn.Conv2d(squeeze, expand, kernel_size=1)
        self.right = nn.Conv2d(squeeze, expand, kernel_size=3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x):
        s = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.left(s)), self.relu(self.right(s))], 1)


class Model(nn.Module):
    """
    Two fire modules of SqueezeNet, the second with a bypass.
    """

    def __init__(self, cin, squeeze, expand):
        super().__init__()
        self.fire_a = Fire(cin, squeeze, expand)
        self.fire_b = Fire(2 * expand, squeeze, expand)

    def forward(self, x):
        a = self.fire_a(x)
        return a + self.fire_b(a)


def get_inputs():
    return [torch.randn(32, 96, 54, 54) * 2]


def get_init_inputs():
    return [96, 24, 80]
