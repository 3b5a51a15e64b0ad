import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Transposed convolution -> GELU -> max pooling -> bias -> tanh
    """
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, pool, bias_shape):
        super(Model, self).__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.pool = pool
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = F.gelu(self.conv_transpose(x))
        x = F.max_pool2d(x, self.pool)
        return torch.tanh(x + self.bias)

batch_size = 32
in_channels = 64
out_channels = 48
height = width = 64
kernel_size = 4
stride = 2
padding = 1
pool = 2
bias_shape = (1, out_channels, 1, 1)

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, pool, bias_shape]
