import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, pool_size, pool_stride, scaling_factor):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, bias=False)
        self.avg_pool = nn.AvgPool2d(pool_size, stride=pool_stride)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.conv(x)
        x = torch.abs(x)
        x = self.avg_pool(x)
        x = torch.sqrt(x + 1e-8)
        x = x * self.scaling_factor
        return x

batch_size = 128
in_channels = 3
out_channels = 64
height = width = 112
kernel_size = 5
pool_size = 3
pool_stride = 2
scaling_factor = 1.7

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size, pool_stride, scaling_factor]
