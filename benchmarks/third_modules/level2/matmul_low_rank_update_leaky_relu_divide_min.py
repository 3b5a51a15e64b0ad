import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Frozen weight plus a scaled low-rank update, bias, leaky ReLU, division, min over the features.
    """

    def __init__(self, in_features, out_features, rank, alpha, divisor):
        super(Model, self).__init__()
        self.weight = nn.Parameter(torch.randn(in_features, out_features) * 0.02)
        self.down = nn.Parameter(torch.randn(in_features, rank) * 0.02)
        self.up = nn.Parameter(torch.randn(rank, out_features) * 0.02)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.scaling = alpha / rank
        self.divisor = divisor

    def forward(self, x):
        base = x @ self.weight
        update = (x @ self.down) @ self.up
        y = F.leaky_relu(base + self.scaling * update + self.bias, 0.2)
        y = y / self.divisor + 1.0
        return torch.min(y, dim=-1, keepdim=True)[0]


batch_size = 4096
in_features = 2048
out_features = 3584
rank = 32


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, rank, 16.0, 3.0]
