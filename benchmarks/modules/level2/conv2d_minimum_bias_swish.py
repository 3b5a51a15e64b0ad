import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Grouped convolution, minimum with a constant, bias, swish.
    """

    def __init__(self, in_channels, out_channels, kernel_size, groups, ceiling):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, groups=groups, padding=kernel_size // 2)
        self.ceiling = ceiling
        self.b = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        x = self.conv(x)
        x = torch.minimum(x, torch.tensor(self.ceiling, device=x.device))
        x = x + self.b
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(16, 64, 112, 128)]


def get_init_inputs():
    return [64, 96, 3, 4, 0.6]
