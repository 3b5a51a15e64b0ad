import torch
import torch.nn as nn


class Model(nn.Module):
    """Pairwise scores, masked with a key mask, softmax, learned scale."""

    def __init__(self, dim):
        super().__init__()
        self.inv_sqrt = dim ** -0.5
        self.scale = nn.Parameter(torch.full((1, 1, 1), 600.0))

    def forward(self, queries, keys, key_mask):
        scores = torch.bmm(queries, keys.transpose(1, 2)) * self.inv_sqrt
        scores = scores.masked_fill(key_mask[:, None, :] == 0, -1e9)
        return scores.softmax(-1) * self.scale


B = 32
Q = 1024
K = 1280
DIM = 192


def get_inputs():
    return [
        torch.randn(B, Q, DIM),
        torch.randn(B, K, DIM),
        torch.randint(0, 2, (B, K)),
    ]


def get_init_inputs():
    return [DIM]
