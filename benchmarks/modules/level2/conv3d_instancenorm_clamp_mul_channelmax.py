import torch
import torch.nn as nn


class Model(nn.Module):
    """
    3D convolution, multiplication, instance normalisation, clamp, maximum over the channels.
    """

    def __init__(self, cin, cout, low, high):
        super(Model, self).__init__()
        self.conv = nn.Conv3d(cin, cout, kernel_size=3, padding=1)
        self.instance_norm = nn.InstanceNorm3d(cout)
        self.m = nn.Parameter(torch.randn(cout, 1, 1, 1))
        self.low, self.high = low, high

    def forward(self, x):
        x = self.conv(x) * self.m
        x = self.instance_norm(x)
        x = x.clamp(self.low, self.high)
        x = x * self.m
        return x.max(dim=1)[0]


CIN, COUT = 8, 28


def get_inputs():
    return [torch.randn(16, CIN, 20, 48, 56)]


def get_init_inputs():
    return [CIN, COUT, -2.0, 1.2]
