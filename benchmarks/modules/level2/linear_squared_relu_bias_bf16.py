import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    bfloat16: linear layer, squared ReLU, per-feature scale and bias.
    """

    def __init__(self, hidden, expansion):
        super().__init__()
        self.up = nn.Linear(hidden, hidden * expansion, dtype=torch.bfloat16)
        self.scale = nn.Parameter((torch.rand(hidden * expansion) + 0.5).bfloat16())
        self.bias = nn.Parameter((torch.randn(hidden * expansion) * 0.3).bfloat16())

    def forward(self, x):
        h = F.relu(self.up(x)).square()
        return h * self.scale + self.bias


hidden = 1536
expansion = 4


def get_inputs():
    return [torch.randn(8192, hidden).bfloat16() * 2]


def get_init_inputs():
    return [hidden, expansion]
