import torch
import torch.nn as nn


class Model(nn.Module):
    """
    1D convolution, batch norm, mish, max pooling, softmax over channels, scaling.
    """

    def __init__(self, in_channels, out_channels, kernel_size, pool_kernel, scaling_factor):
        super(Model, self).__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride=2)
        self.bn = nn.BatchNorm1d(out_channels)
        self.mish = nn.Mish()
        self.pool = nn.MaxPool1d(pool_kernel)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        x = self.mish(x)
        x = self.pool(x)
        x = torch.softmax(x, dim=1)
        return x * self.scaling_factor


batch_size = 64
in_channels = 40
out_channels = 128
length = 12000
kernel_size = 11
pool_kernel = 3
scaling_factor = 10.0


def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_kernel, scaling_factor]
