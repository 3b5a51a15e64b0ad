import torch
import torch.nn as nn


class Model(nn.Module):
    """
    3D convolution, group norm, swish, minimum with a constant, clamp, mean over depth.
    """

    def __init__(self, in_channels, out_channels, kernel_size, groups, ceiling, floor):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=(1, 2, 2), padding=1)
        self.norm = nn.GroupNorm(groups, out_channels)
        self.register_buffer("ceiling", torch.tensor(ceiling))
        self.floor = floor

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = x * torch.sigmoid(x)
        x = torch.minimum(x, self.ceiling)
        x = x.clamp(min=self.floor)
        return x.mean(dim=2)


batch_size = 24
in_channels = 8
out_channels = 48
depth, height, width = 16, 96, 96
kernel_size = 3


def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, 8, 1.25, -0.1]
