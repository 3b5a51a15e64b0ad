import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed 3D convolution that upsamples the plane but keeps the depth resolution.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super(Model, self).__init__()
        self.up = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.up(x)

batch_size = 6
in_channels = 24
out_channels = 16
depth = 20
height = 48
width = 56

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, (3, 4, 4), (1, 2, 2), (1, 1, 1)]
