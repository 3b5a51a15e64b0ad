import torch
import torch.nn as nn

class Model(nn.Module):
    """
    A transposed 3D convolution, maximum over the depth, log(1 + |x|) and subtraction of a bias.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = torch.amax(x, dim=2)
        x = torch.log1p(torch.abs(x))
        return x - self.bias

batch_size = 8
in_channels = 32
out_channels = 16
depth = 16
height = 40
width = 40

def get_inputs():
    return [torch.randn(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, (3, 3, 3), (2, 2, 2), (1, 1, 1)]
