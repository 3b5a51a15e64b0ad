import torch
import torch.nn as nn

class Model(nn.Module):
    """
    3D convolution, LeakyReLU, sum over depth, clamp, exponential.
    """
    def __init__(self, in_channels, out_channels, kernel_size, min_value, max_value):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=(1, 2, 2))
        self.leaky = nn.LeakyReLU(0.1)
        self.min_value = min_value
        self.max_value = max_value

    def forward(self, x):
        x = self.conv(x)
        x = self.leaky(x)
        x = torch.sum(x, dim=2)
        x = torch.clamp(x, min=self.min_value, max=self.max_value)
        return torch.exp(x)

batch_size = 16
in_channels = 4
out_channels = 48
depth, height, width = 20, 96, 96
kernel_size = (3, 5, 5)

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, -3.0, 2.0]
