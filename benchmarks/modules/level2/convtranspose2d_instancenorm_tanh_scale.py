import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Transposed convolution, affine instance normalisation, tanh, scale.
    """

    def __init__(self, in_channels, out_channels, scale):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1)
        self.inorm = nn.InstanceNorm2d(out_channels, affine=True)
        nn.init.normal_(self.inorm.weight, mean=1.0, std=0.3)
        self.scale = scale

    def forward(self, x):
        x = self.inorm(self.up(x))
        return x.tanh() * self.scale


in_channels = 96
out_channels = 48


def get_inputs():
    return [torch.randn(16, in_channels, 64, 72)]


def get_init_inputs():
    return [in_channels, out_channels, 1.8]
