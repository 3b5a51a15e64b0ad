import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Convolution, RMS norm over the channels, SiLU, constant multiply, max pooling
    """
    def __init__(self, in_channels, out_channels, kernel_size, multiplier, eps=1e-5):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=2)
        self.g = nn.Parameter(torch.rand(1, out_channels, 1, 1) + 0.5)
        self.multiplier = multiplier
        self.eps = eps

    def _rms(self, x):
        return torch.sqrt(torch.mean(x * x, dim=1, keepdim=True) + self.eps)

    def forward(self, x):
        x = self.conv(x)
        x = x / self._rms(x) * self.g
        x = F.silu(x) * self.multiplier
        return F.max_pool2d(x, kernel_size=3, stride=2, padding=1)

batch_size = 64
in_channels = 12
out_channels = 64
height, width = 192, 192
kernel_size = 5
multiplier = 0.7

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, multiplier]
