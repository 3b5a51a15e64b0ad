import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Divides every row by its mean absolute value.
    """

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x / torch.mean(torch.abs(x), dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(2048, 17000) * 1.7]


def get_init_inputs():
    return []
