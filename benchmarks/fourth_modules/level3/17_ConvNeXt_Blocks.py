import torch
import torch.nn as nn
import torch.nn.functional as F

class ChannelsFirstLN(nn.Module):
    """ LayerNorm for (N, C, H, W) tensors """
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]

class Block(nn.Module):
    def __init__(self, dim, layer_scale=1e-2):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pw1 = nn.Linear(dim, 4 * dim)
        self.pw2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pw2(F.gelu(self.pw1(self.norm(y))))
        y = (self.gamma * y).permute(0, 3, 1, 2)
        return x + y

class Model(nn.Module):
    """
    Patchify stem, two ConvNeXt blocks, downsampling, one more block.
    """
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dim, 4, stride=4), ChannelsFirstLN(dim))
        self.stage1 = nn.Sequential(Block(dim), Block(dim))
        self.down = nn.Sequential(ChannelsFirstLN(dim), nn.Conv2d(dim, 2 * dim, 2, stride=2))
        self.stage2 = Block(2 * dim)

    def forward(self, x):
        return self.stage2(self.down(self.stage1(self.stem(x))))

batch_size = 16
dim = 96

def get_inputs():
    return [torch.rand(batch_size, 3, 224, 224)]

def get_init_inputs():
    return [dim]
