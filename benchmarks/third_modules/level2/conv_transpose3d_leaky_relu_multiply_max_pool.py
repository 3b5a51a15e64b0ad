import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed 3D convolution, leaky ReLU, multiplication with a parameter, leaky ReLU, max pooling.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride, multiplier_shape):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.leaky_relu = nn.LeakyReLU(negative_slope=0.1)
        self.max_pool = nn.MaxPool3d(kernel_size=3, stride=2)

    def forward(self, x):
        x = self.leaky_relu(self.conv_transpose(x))
        x = self.leaky_relu(x * self.multiplier)
        x = self.max_pool(x)
        return x


batch_size = 16
in_channels = 24
out_channels = 32
depth, height, width = 10, 32, 36
kernel_size = 4
stride = 2
multiplier_shape = (out_channels, 1, 1, 1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, multiplier_shape]
