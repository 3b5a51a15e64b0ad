import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Strided convolution followed by leaky ReLU, a clamp and a division.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, negative_slope, clamp_min, clamp_max, divisor):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=kernel_size // 2)
        self.act = nn.LeakyReLU(negative_slope)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.divisor = divisor

    def forward(self, x):
        x = self.act(self.conv(x))
        x = x.clamp(self.clamp_min, self.clamp_max)
        return x.div(self.divisor)

batch_size = 64
in_channels = 3
out_channels = 64
kernel_size = 7
stride = 2
height = 256
width = 256

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, 0.2, -0.1, 1.0, 1.7]
