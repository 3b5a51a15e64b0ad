import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Same-size convolution, group normalisation, addition of the input, ReLU.
    """

    def __init__(self, width: int, groups: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, kernel_size=3, padding="same", bias=False)
        self.gn = nn.GroupNorm(groups, width)

    def forward(self, x):
        out = self.gn(self.conv(x))
        return F.relu(out + x)


WIDTH = 64
GROUPS = 16


def get_inputs():
    return [torch.randn(20, WIDTH, 96, 128)]


def get_init_inputs():
    return [WIDTH, GROUPS]
