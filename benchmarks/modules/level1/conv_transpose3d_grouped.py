import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Grouped transposed 3D convolution with stride 2.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, groups: int):
        super(Model, self).__init__()
        self.deconv = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, groups=groups, bias=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.deconv(x)


batch_size = 16
in_channels = 48
out_channels = 24
groups = 4
depth, height, width = 16, 32, 28


def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, 4, 2, 1, groups]
