import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Contracts the last dimension of a 4D tensor with a matrix.
    """

    def __init__(self):
        super().__init__()

    def forward(self, t, w):
        """t: (b, h, s, i), w: (i, o); returns (b, h, s, o)."""
        return torch.einsum("bhsi,io->bhso", t, w)


B, H, S = 12, 48, 96
I, O = 320, 448


def get_inputs():
    t = torch.randn(B, H, S, I)
    w = torch.randn(I, O)
    return [t, w]


def get_init_inputs():
    return []
