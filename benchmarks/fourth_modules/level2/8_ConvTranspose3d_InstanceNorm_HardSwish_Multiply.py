import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    3D transposed convolution followed by instance norm, HardSwish and a learned multiplier per channel and depth.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, multiplier_shape):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.instance_norm = nn.InstanceNorm3d(out_channels)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = self.instance_norm(x)
        x = F.hardswish(x)
        return x * self.multiplier

batch_size = 16
in_channels = 32
out_channels = 16
depth, height, width = 12, 32, 32
kernel_size = 4
stride = 2
padding = 1
multiplier_shape = (out_channels, 24, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, multiplier_shape]
