import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Causal depthwise 1D convolution, SiLU, multiplication with a gate tensor, bias.
    """

    def __init__(self, dim, width=4):
        super().__init__()
        self.dim = dim
        self.width = width
        self.taps = nn.Parameter(torch.randn(dim, 1, width) * 0.5)
        self.shift = nn.Parameter(torch.randn(dim, 1) * 0.5)

    def forward(self, x, gate):
        n = x.shape[-1]
        y = F.conv1d(x, self.taps, padding=self.width - 1, groups=self.dim)[..., :n]
        return F.silu(y) * gate + self.shift


dim = 1024
length = 2048


def get_inputs():
    return [torch.randn(10, dim, length), torch.randn(10, dim, length)]


def get_init_inputs():
    return [dim]
