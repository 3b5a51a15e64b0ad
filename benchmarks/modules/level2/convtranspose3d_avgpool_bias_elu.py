import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Transposed 3D convolution, average pooling, bias, ELU.
    """

    def __init__(self, cin, cout, pool_size):
        super().__init__()
        self.deconv = nn.ConvTranspose3d(cin, cout, 3, stride=2, padding=1, output_padding=1)
        self.pool = nn.AvgPool3d(pool_size, stride=2)
        self.bias = nn.Parameter(torch.randn(cout, 1, 1, 1) * 0.5)

    def forward(self, x):
        return F.elu(self.pool(self.deconv(x)) + self.bias)


def get_inputs():
    return [torch.randn(8, 24, 14, 36, 36) * 3]


def get_init_inputs():
    return [24, 20, 3]
