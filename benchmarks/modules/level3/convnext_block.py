import torch
import torch.nn as nn


class Model(nn.Module):
    """
    ConvNeXt block: depthwise 7x7, layer normalisation, two linear layers, layer scale, residual.
    """

    def __init__(self, dim, mlp_ratio=4, layer_scale=0.5):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, mlp_ratio * dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(mlp_ratio * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.randn(dim))

    def forward(self, x):
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        x = self.gamma * x
        return shortcut + x.permute(0, 3, 1, 2)


DIM = 144


def get_inputs():
    return [torch.randn(12, DIM, 56, 56)]


def get_init_inputs():
    return [DIM]
