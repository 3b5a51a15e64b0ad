import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolution, spread (max minus min) across channels, two tanh and a scalar scale.
    """

    def __init__(self, in_channels, out_channels, kernel_size, scale):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, groups=2)
        self.scale = scale

    def forward(self, x):
        x = self.conv(x)
        high = torch.amax(x, dim=1, keepdim=True)
        low = torch.amin(x, dim=1, keepdim=True)
        x = torch.tanh((high - low) * self.scale)
        return torch.tanh(x)


batch_size = 64
in_channels = 32
out_channels = 64
height, width = 130, 118
kernel_size = (3, 3)
scale = 0.25


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, scale]
