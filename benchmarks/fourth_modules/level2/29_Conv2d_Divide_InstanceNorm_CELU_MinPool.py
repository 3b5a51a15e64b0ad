import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Convolution, division by a constant, affine instance normalization, CELU, minimum pooling.
    """
    def __init__(self, in_channels, out_channels, kernel_size, divide_by, pool):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.instance_norm = nn.InstanceNorm2d(out_channels, affine=True)
        self.divide_by = divide_by
        self.pool = nn.MaxPool2d(pool)

    def forward(self, x):
        x = self.conv(x)
        x = x / self.divide_by
        x = self.instance_norm(x)
        x = F.celu(x, alpha=1.3)
        return -self.pool(-x)

batch_size = 64
in_channels = 16
out_channels = 64
height, width = 130, 130
kernel_size = 3
divide_by = 2.0
pool = 4

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, divide_by, pool]
