import torch
import torch.nn as nn


class Model(nn.Module):
    """Matrix-vector product."""

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, v):
        return torch.mv(A, v)


rows = 8192
columns = 12288


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(columns)]


def get_init_inputs():
    return []
