import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolves, removes the spatial mean of each channel, applies ReLU6 and average pooling.
    """

    def __init__(self, in_channels, out_channels, kernel_size, dilation, pool_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, dilation=dilation)
        self.relu6 = nn.ReLU6()
        self.pool = nn.AvgPool2d(pool_size)

    def forward(self, x):
        x = self.conv(x)
        x = x - x.mean(dim=[2, 3], keepdim=True)
        x = self.relu6(x)
        x = self.pool(x)
        return x


batch_size = 48
in_channels = 40
out_channels = 80
height = width = 128
kernel_size = 3
dilation = 2
pool_size = 4


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, dilation, pool_size]
