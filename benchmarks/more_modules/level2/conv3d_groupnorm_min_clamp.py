import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Performs a 3D convolution, group normalization, minimum with a learned ceiling and a clamp.
    """
    def __init__(self, in_channels, out_channels, kernel_size, groups, min_value, max_value):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(groups, out_channels)
        self.ceiling = nn.Parameter(torch.rand(1, out_channels, 1, 1, 1))
        self.min_value = min_value
        self.max_value = max_value

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = torch.minimum(x, self.ceiling)
        x = torch.clamp(x, min=self.min_value, max=self.max_value)
        return x

batch_size = 12
in_channels = 6
out_channels = 32
depth = 22
height = 66
width = 66

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, 3, 8, -1.0, 0.8]
