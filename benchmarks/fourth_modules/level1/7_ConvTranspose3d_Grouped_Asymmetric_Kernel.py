import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Grouped transposed 3D convolution, kernel and stride different along every axis.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups):
        super(Model, self).__init__()
        self.deconv = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size,
            stride=stride, padding=padding, output_padding=output_padding,
            groups=groups, bias=False,
        )

    def forward(self, x):
        return self.deconv(x)

batch_size = 8
in_channels = 32
out_channels = 48
kernel_size = (2, 3, 5)
stride = (2, 2, 1)
padding = (0, 1, 2)
output_padding = (0, 1, 0)
groups = 4
depth, height, width = 12, 32, 48

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, groups]
