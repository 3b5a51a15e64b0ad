import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Convolution, softsign, multiplication with a learned scale and addition of a learned bias.
    """
    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale = nn.Parameter(torch.randn(bias_shape))
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.conv(x)
        x = F.softsign(x)
        x = x * self.scale
        x = x + self.bias
        return x

batch_size = 32
in_channels = 32
out_channels = 96
height, width = 128, 128
kernel_size = 3
bias_shape = (out_channels, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, bias_shape]
