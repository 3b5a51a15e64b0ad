import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 2D convolution where kernel, stride, padding and dilation all differ per axis.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, stride: tuple,
                 padding: tuple, dilation: tuple, bias: bool = True):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride,
                                                 padding=padding, dilation=dilation, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose(x)


batch_size = 16
in_channels = 48
out_channels = 64
height = 128
width = 192
kernel_size = (3, 5)
stride = (2, 1)
padding = (1, 3)
dilation = (1, 2)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
