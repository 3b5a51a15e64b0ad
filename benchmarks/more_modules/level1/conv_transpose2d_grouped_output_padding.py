import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Transposed 2D convolution with stride, padding, output padding and groups.
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups):
        super(Model, self).__init__()
        self.deconv = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=True,
        )

    def forward(self, x):
        return self.deconv(x)

batch_size = 16
in_channels = 96
out_channels = 64
kernel_size = (3, 5)
stride = (2, 3)
padding = (1, 2)
output_padding = (1, 1)
groups = 4
height = 64
width = 80

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, groups]
