import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Product of two symmetric matrices.
    """

    def __init__(self):
        super().__init__()

    def forward(self, P, Q):
        return torch.matmul(P, Q)


DIM = 3072


def _symmetric(n):
    a = torch.randn(n, n)
    return 0.5 * (a + a.t())


def get_inputs():
    return [_symmetric(DIM), _symmetric(DIM)]


def get_init_inputs():
    return []
