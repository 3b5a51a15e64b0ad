import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Multiplies a diagonal matrix, given by its diagonal, with a full matrix.
    """

    def __init__(self):
        super().__init__()

    def forward(self, d, mat):
        return torch.mm(torch.diag_embed(d), mat)


LENGTH = 4608
WIDTH = 3840


def get_inputs():
    d = torch.randn(LENGTH)
    mat = torch.randn(LENGTH, WIDTH)
    return [d, mat]


def get_init_inputs():
    return []
