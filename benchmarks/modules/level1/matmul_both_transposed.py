import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Product of two matrices which are both given transposed.
    """

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, at, bt):
        return at.T @ bt.T


n_rows = 1536
n_cols = 4352
n_inner = 2048


def get_inputs():
    at = torch.rand(n_inner, n_rows)
    bt = torch.randn(n_cols, n_inner)
    return [at, bt]


def get_init_inputs():
    return []
