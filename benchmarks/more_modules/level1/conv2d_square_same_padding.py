import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Standard 2D convolution, square input and square 5x5 kernel, output as large as the input.
    """
    def __init__(self, in_channels, out_channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        return self.conv(x)

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = 5
height = width = 192

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
