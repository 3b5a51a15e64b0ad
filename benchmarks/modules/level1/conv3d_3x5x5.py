import torch
import torch.nn as nn


class Model(nn.Module):
    """
    3D convolution with a kernel that is shorter in depth.
    """

    def __init__(self, in_channels, out_channels, kernel):
        super().__init__()
        self.conv3d = nn.Conv3d(in_channels, out_channels, kernel, stride=1, padding=(1, 2, 2))

    def forward(self, volume):
        return self.conv3d(volume)


BATCH = 4
C_IN = 24
C_OUT = 40
DEPTH = 20
HEIGHT = 72
WIDTH = 56


def get_inputs():
    return [torch.randn(BATCH, C_IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [C_IN, C_OUT, (3, 5, 5)]
