import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Model that performs a 3D convolution, ReLU, max pooling, adds a bias term, and sums along a dimension.
    """
    def __init__(self, in_channels, out_channels, kernel_size, pool_size, bias_shape, sum_dim):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.max_pool = nn.MaxPool3d(pool_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.sum_dim = sum_dim

    def forward(self, x):
        x = self.conv(x)
        x = torch.relu(x)
        x = self.max_pool(x)
        x = x + self.bias
        x = torch.sum(x, dim=self.sum_dim)
        return x

batch_size = 32
in_channels = 8
out_channels = 24
depth, height, width = 18, 66, 66
kernel_size = (3, 3, 3)
pool_size = (2, 2, 2)
bias_shape = (out_channels, 1, 1, 1)
sum_dim = 1

def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size, bias_shape, sum_dim]
