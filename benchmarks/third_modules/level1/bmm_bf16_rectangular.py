import torch
import torch.nn as nn


class Model(nn.Module):
    """Batched product of rectangular bfloat16 matrices."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.bmm(a, b)


batch = 128
m, k, n = 1000, 776, 1152


def get_inputs():
    a = torch.randn(batch, m, k, dtype=torch.bfloat16)
    b = torch.randn(batch, k, n, dtype=torch.bfloat16)
    return [a, b]


def get_init_inputs():
    return []
