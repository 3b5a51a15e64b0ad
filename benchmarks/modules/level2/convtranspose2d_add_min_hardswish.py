import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed convolution plus a skip tensor, cut from above, hard swish.
    """

    def __init__(self, in_channels, out_channels, limit=1.0):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1)
        self.limit = limit

    def forward(self, x, skip):
        x = self.conv_transpose(x)
        x = x + skip
        x = x.clamp(max=self.limit)
        return F.hardswish(x)


N = 12
C = 64
OUT = 48


def get_inputs():
    x = torch.randn(N, C, 60, 68)
    skip = torch.randn(N, OUT, 120, 136)
    return [x, skip]


def get_init_inputs():
    return [C, OUT, 1.4]
