import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Plain transposed 2D convolution, square input, square kernel, unit stride.
    """
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super(Model, self).__init__()
        self.conv_transpose2d = nn.ConvTranspose2d(in_channels, out_channels, (kernel_size, kernel_size), bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose2d(x)

batch_size = 10
in_channels = 48
out_channels = 48
kernel_size = 3
size = 250

def get_inputs():
    x = torch.rand(batch_size, in_channels, size, size)
    return [x]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
