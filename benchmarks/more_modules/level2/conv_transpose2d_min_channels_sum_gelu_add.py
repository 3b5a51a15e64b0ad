import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    A transposed convolution, minimum over channels, sum over the height, GELU and a bias.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride)
        self.bias = nn.Parameter(torch.zeros(1, 1, 1, 1) + 0.25)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = x.min(dim=1, keepdim=True).values
        x = x.sum(dim=2, keepdim=True)
        x = F.gelu(x * 0.02)
        return x + self.bias

batch_size = 24
in_channels = 32
out_channels = 48
height = 72
width = 88
kernel_size = 3
stride = 2

def get_inputs():
    contrast = 0.5 + 1.5 * torch.rand(batch_size, 1, 1, 1)
    return [torch.randn(batch_size, in_channels, height, width) * contrast]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
