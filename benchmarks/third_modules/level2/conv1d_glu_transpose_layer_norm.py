import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    1D convolution to twice the channels, gated linear unit, layer norm over channels, residual.
    """

    def __init__(self, channels, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, kernel_size, padding=kernel_size // 2)
        self.ln = nn.LayerNorm(channels)

    def forward(self, x):
        y = F.glu(self.conv(x), dim=1)
        y = self.ln(y.transpose(1, 2)).transpose(1, 2)
        return x + y


batch_size = 32
channels = 256
length = 3000
kernel_size = 5


def get_inputs():
    return [torch.randn(batch_size, channels, length)]


def get_init_inputs():
    return [channels, kernel_size]
