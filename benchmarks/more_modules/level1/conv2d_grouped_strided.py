import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Grouped 2D convolution with stride 2.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride,
                              padding=padding, groups=groups)

    def forward(self, x):
        return self.conv(x)

batch_size = 24
in_channels = 128
out_channels = 256
groups = 8
size = 112

def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size)]

def get_init_inputs():
    return [in_channels, out_channels, 3, 2, 1, groups]
