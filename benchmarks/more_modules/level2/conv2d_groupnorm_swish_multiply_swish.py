import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Conv2d -> GroupNorm -> SiLU -> multiply by a per-channel weight -> SiLU
    """
    def __init__(self, in_channels, out_channels, kernel_size, num_groups, multiply_weight_shape):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=2)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.multiply_weight = nn.Parameter(torch.randn(multiply_weight_shape))

    def forward(self, x):
        x = self.conv(x)
        x = self.norm(x)
        x = x * torch.sigmoid(x)
        x = x * self.multiply_weight
        x = x * torch.sigmoid(x)
        return x

batch_size = 24
in_channels = 24
out_channels = 128
height = 224
width = 224
kernel_size = 5
num_groups = 16
multiply_weight_shape = (1, out_channels, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, multiply_weight_shape]
