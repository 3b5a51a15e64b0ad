import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, pool):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, bias=False)
        self.gamma = nn.Parameter(torch.rand(out_channels) + 0.5)
        self.beta = nn.Parameter(torch.randn(out_channels))
        self.pool = pool

    def forward(self, x):
        x = self.conv(x)
        x = x * self.gamma[None, :, None, None, None] + self.beta[None, :, None, None, None]
        x = F.max_pool3d(x, self.pool)
        return F.logsigmoid(x)


batch_size = 32
in_channels = 4
out_channels = 40
D, H, W = 18, 50, 50
kernel_size = 3
pool = (2, 2, 2)


def get_inputs():
    return [torch.rand(batch_size, in_channels, D, H, W)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool]
