import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    3D convolution, layer norm over the width axis, GELU and a constant scale.
    """
    def __init__(self, in_channels, out_channels, kernel_size, norm_size, scaling_factor):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, padding=1)
        self.layer_norm = nn.LayerNorm(norm_size)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.conv(x)
        x = self.layer_norm(x)
        x = F.gelu(x)
        x = x * self.scaling_factor
        return x

batch_size = 16
in_channels = 16
out_channels = 32
depth = 16
height = 48
width = 64
kernel_size = 3
scaling_factor = 0.75

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, width, scaling_factor]
