import torch
import torch.nn as nn


class Model(nn.Module):
    """Dilated Conv3d, tanhshrink, batch norm, global max pooling."""

    def __init__(self, in_channels, out_channels, kernel_size, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(in_channels, out_channels, kernel_size, dilation=dilation, padding=dilation),
            nn.Tanhshrink(),
            nn.BatchNorm3d(out_channels),
            nn.AdaptiveMaxPool3d(1),
            nn.Flatten(),
        )

    def forward(self, x):
        return self.net(x)


batch_size = 16
in_channels = 12
out_channels = 36
spatial = (24, 40, 44)


def get_inputs():
    return [torch.rand(batch_size, in_channels, *spatial)]


def get_init_inputs():
    return [in_channels, out_channels, 3, 2]
