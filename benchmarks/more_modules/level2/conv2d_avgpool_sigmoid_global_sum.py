import torch
import torch.nn as nn

class Model(nn.Module):
    """
    This model performs a convolution, average pooling, applies sigmoid, and sums the spatial positions.
    """
    def __init__(self, in_channels, out_channels, kernel_size, pool_kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.avg_pool = nn.AvgPool2d(pool_kernel_size)

    def forward(self, x):
        x = self.conv(x)
        x = self.avg_pool(x)
        x = torch.sigmoid(x)
        x = torch.sum(x, dim=[2, 3])
        return x

batch_size = 64
in_channels = 24
out_channels = 72
height, width = 114, 114
kernel_size = 3
pool_kernel_size = 4

def get_inputs():
    base = torch.randn(batch_size, in_channels, 1, 1)
    return [torch.randn(batch_size, in_channels, height, width) + 2 * base]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_kernel_size]
