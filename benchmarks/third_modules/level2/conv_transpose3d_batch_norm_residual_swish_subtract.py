import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """ConvTranspose3d, batch norm, nearest-neighbour skip from the input, swish, subtract mean over depth."""

    def __init__(self, channels, kernel_size, stride):
        super().__init__()
        self.deconv = nn.ConvTranspose3d(channels, channels, kernel_size, stride=stride, bias=False)
        self.bn = nn.BatchNorm3d(channels)
        self.stride = stride

    def forward(self, x):
        y = self.bn(self.deconv(x))
        skip = F.interpolate(x, scale_factor=self.stride, mode="nearest")
        y = F.silu(y + skip)
        return y - y.mean(dim=2, keepdim=True)


batch_size = 24
channels = 32
D, H, W = 8, 28, 32


def get_inputs():
    return [torch.randn(batch_size, channels, D, H, W)]


def get_init_inputs():
    return [channels, 2, 2]
