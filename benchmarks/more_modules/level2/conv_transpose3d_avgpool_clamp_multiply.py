import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed 3D convolution, average pooling, clamp and elementwise multiplication.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, pool_kernel_size, clamp_min, clamp_max):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.multiplier = nn.Parameter(torch.randn(1, out_channels, 1, 1, 1))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = self.avg_pool(x)
        x = torch.clamp(x, self.clamp_min, self.clamp_max)
        x = x * self.multiplier
        return x

batch_size = 16
in_channels = 16
out_channels = 24
depth, height, width = 12, 32, 32
kernel_size = 3
stride = 2
padding = 1
pool_kernel_size = 2

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, pool_kernel_size, -0.15, 0.2]
