import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    1D convolution over a sequence, GELU, layer normalisation, residual addition.
    """

    def __init__(self, features, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(features, features, kernel_size, padding=kernel_size // 2)
        self.norm = nn.LayerNorm(features)

    def forward(self, seq):
        # seq: (batch, time, features)
        h = self.conv(seq.transpose(1, 2)).transpose(1, 2)
        return seq + self.norm(F.gelu(h))


features = 384
kernel_size = 5


def get_inputs():
    return [torch.randn(32, 1024, features)]


def get_init_inputs():
    return [features, kernel_size]
