import torch
import torch.nn as nn


class Model(nn.Module):
    """
    3D convolution, ELU, layer norm over the width, sum over channels.
    """

    def __init__(self, in_channels, out_channels, kernel_size, norm_shape, alpha):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, padding=1)
        self.elu = nn.ELU(alpha=alpha)
        self.ln = nn.LayerNorm(norm_shape)

    def forward(self, x):
        x = self.conv(x)
        x = self.elu(x)
        x = self.ln(x)
        return torch.sum(x, dim=1)


batch_size = 16
in_channels = 16
out_channels = 32
depth, height, width = 20, 48, 64
kernel_size = 3
norm_shape = (width,)
alpha = 0.8


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, norm_shape, alpha]
