import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Batched matrix product whose sizes are no multiples of a power of two.
    """

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x, y):
        return torch.bmm(x, y)


batch = 90
m = 387
k = 517
n = 301


def get_inputs():
    return [torch.randn(batch, m, k), torch.randn(batch, k, n)]


def get_init_inputs():
    return []
