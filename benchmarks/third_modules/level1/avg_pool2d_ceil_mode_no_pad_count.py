import torch
import torch.nn as nn


class Model(nn.Module):
    """
    2D average pooling with overlapping windows, ceil mode, and padding left out of the average.
    """

    def __init__(self, kernel_size: int, stride: int, padding: int):
        super(Model, self).__init__()
        self.pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding,
                                 ceil_mode=True, count_include_pad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


batch_size = 76
channels = 80
height = 192
width = 210
kernel_size = 5
stride = 2
padding = 1


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [kernel_size, stride, padding]
