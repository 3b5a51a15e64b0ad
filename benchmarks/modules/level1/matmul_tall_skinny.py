import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A very tall matrix times a skinny one.
    """

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, b)


rows = 131072
inner = 256
cols = 40


def get_inputs():
    a = torch.rand(rows, inner) - 0.5
    b = torch.randn(inner, cols)
    return [a, b]


def get_init_inputs():
    return []
