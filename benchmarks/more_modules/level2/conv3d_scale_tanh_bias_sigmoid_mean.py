import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Conv3d, multiply by a learned factor, tanh, add a learned bias, sigmoid, mean over the volume.
    """
    def __init__(self, in_channels, out_channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=(1, 2, 2))
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1) * 2)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        x = self.conv(x)
        x = torch.tanh(x * self.factor)
        x = torch.sigmoid(x + self.bias)
        return x.mean(dim=(2, 3, 4))

batch_size = 24
in_channels = 3
out_channels = 32
kernel_size = 3
frames = 16
height = 128
width = 128

def get_inputs():
    base = torch.randn(batch_size, in_channels, 1, 1, 1)
    return [torch.randn(batch_size, in_channels, frames, height, width) + 2 * base]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
