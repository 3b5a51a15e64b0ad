import torch
import torch.nn as nn

class Model(nn.Module):
    """
    A soft choice over channels: convolution, softmax over channels, weighted sum with learned values.
    """
    def __init__(self, in_channels, out_channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        self.values = nn.Parameter(torch.linspace(-2.0, 2.0, out_channels).view(1, out_channels, 1, 1))

    def forward(self, x):
        p = torch.softmax(self.conv(x) * 3.0, dim=1)
        return torch.sum(p * self.values, dim=1)

batch_size = 24
in_channels = 32
out_channels = 64
height = 160
width = 160
kernel_size = 3

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
