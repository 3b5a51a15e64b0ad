import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerNorm2d(nn.Module):
    """Layer norm over the channel dimension of NCHW tensors."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Block(nn.Module):
    def __init__(self, dim, layer_scale):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
        y = (self.gamma * y).permute(0, 3, 1, 2)
        return x + y


class Model(nn.Module):
    """A ConvNeXt stage: normalise and downsample, then two blocks."""

    def __init__(self, in_dim, dim, depth, layer_scale):
        super().__init__()
        self.downsample = nn.Sequential(LayerNorm2d(in_dim), nn.Conv2d(in_dim, dim, kernel_size=2, stride=2))
        self.blocks = nn.Sequential(*[Block(dim, layer_scale) for _ in range(depth)])

    def forward(self, x):
        return self.blocks(self.downsample(x))


batch_size = 32
in_dim = 80
dim = 160
depth = 2


def get_inputs():
    return [torch.randn(batch_size, in_dim, 56, 56)]


def get_init_inputs():
    return [in_dim, dim, depth, 0.1]
