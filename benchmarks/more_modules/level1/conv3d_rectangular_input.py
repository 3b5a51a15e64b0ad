import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Performs a 3D convolution on a volume that is not a cube.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0):
        super(Model, self).__init__()
        self.conv3d = nn.Conv3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=False)

    def forward(self, x):
        return self.conv3d(x)

batch_size = 8
in_channels = 12
out_channels = 32
kernel_size = (3, 3, 3)
depth = 24
height = 96
width = 112

def get_inputs():
    x = torch.randn(batch_size, in_channels, depth, height, width)
    return [x]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, 1, 1]
