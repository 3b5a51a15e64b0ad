import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Convolution, log-sum-exp over the channels, then a scaled tanh.
    """
    def __init__(self, in_channels, out_channels, kernel_size, scale):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale = scale

    def forward(self, x):
        x = self.conv(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = torch.tanh(x * self.scale)
        return x

batch_size = 40
in_channels = 16
out_channels = 80
height = 144
width = 144
kernel_size = 3
scale = 0.1

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width) * 4]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, scale]
