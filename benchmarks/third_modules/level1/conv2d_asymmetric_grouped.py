import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Grouped 2D convolution with a wide (3 x 7) kernel over a non-square image.

    Args:
        in_channels (int): input channels.
        out_channels (int): output channels.
        kernel_size (tuple): height and width of the kernel.
        groups (int): number of groups.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, groups: int):
        super(Model, self).__init__()
        pad = (kernel_size[0] // 2, kernel_size[1] // 2)
        self.conv2d = nn.Conv2d(in_channels, out_channels, kernel_size, padding=pad, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)


batch_size = 32
in_channels = 96
out_channels = 192
kernel_size = (3, 7)
groups = 4
height, width = 160, 96


def get_inputs():
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, groups]
