import torch
import torch.nn as nn


class Model(nn.Module):
    """Scale, shift, activate and normalise each row: five passes over memory in eager mode."""

    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x * self.scale + self.shift
        x = x * torch.sigmoid(x)
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)


rows = 2048
features = 1024


def get_inputs():
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [features]
