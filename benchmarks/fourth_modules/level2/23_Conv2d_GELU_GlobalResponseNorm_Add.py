import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    1x1 convolution, GELU and global response normalization as in ConvNeXt V2
    """
    def __init__(self, in_channels, out_channels):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1)
        self.gamma = nn.Parameter(torch.randn(1, out_channels, 1, 1))
        self.beta = nn.Parameter(torch.randn(1, out_channels, 1, 1))

    def forward(self, x):
        x = F.gelu(self.conv(x))
        gx = torch.norm(x, p=2, dim=(2, 3), keepdim=True)
        nx = gx / (gx.mean(dim=1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x

batch_size = 64
in_channels = 96
out_channels = 256
size = 56

def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size)]

def get_init_inputs():
    return [in_channels, out_channels]
