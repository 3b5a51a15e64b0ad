import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Model that performs a convolution, GELU, max pooling, then subtracts a constant.
    """
    def __init__(self, in_channels, out_channels, kernel_size, pool_kernel_size, subtract_value):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=1)
        self.gelu = nn.GELU()
        self.pool = nn.MaxPool2d(pool_kernel_size)
        self.subtract_value = subtract_value

    def forward(self, x):
        x = self.conv(x)
        x = self.gelu(x)
        x = self.pool(x)
        x = x - self.subtract_value
        return x

batch_size = 48
in_channels = 48
out_channels = 64
height = width = 120
kernel_size = 3
pool_kernel_size = 2
subtract_value = 0.35

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_kernel_size, subtract_value]
