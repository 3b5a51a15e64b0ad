import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed convolution, average pooling, sigmoid, weighted sum over the channels.
    """

    def __init__(self, in_channels, out_channels, kernel_size, pool_kernel):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
        self.mix = nn.Parameter(torch.randn(out_channels))
        self.pool_kernel = pool_kernel

    def forward(self, x):
        x = self.conv_transpose(x)
        x = F.avg_pool2d(x, self.pool_kernel)
        x = torch.sigmoid(x)
        return torch.einsum("nchw,c->nhw", x, self.mix)


batch_size = 32
in_channels = 32
out_channels = 64
height = width = 140
kernel_size = 5
pool_kernel = 3


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_kernel]
