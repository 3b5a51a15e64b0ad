import torch
import torch.nn as nn

class Model(nn.Module):
    """
    2D convolution of a rectangular image with a rectangular kernel, with different padding and
    dilation along the two axes.

    Args:
        in_channels (int): channels of the input
        out_channels (int): channels of the output
        kernel_size (tuple): (kernel_height, kernel_width)
        stride (int): stride of both axes
        padding (tuple): (top/bottom, left/right)
        dilation (tuple): (height, width)
        bias (bool): whether to add a bias
    """
    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, stride: int = 1, padding: tuple = (0, 0), dilation: tuple = (1, 1), bias: bool = False):
        super(Model, self).__init__()
        self.conv2d = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: (batch_size, in_channels, height, width)
        """
        return self.conv2d(x)

batch_size = 12
in_channels = 40
out_channels = 56
kernel_size = (3, 7)
height = 160
width = 288
stride = 1
padding = (2, 3)
dilation = (2, 1)

def get_inputs():
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation, True]
