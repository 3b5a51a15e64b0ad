import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Maxout: linear layer, maximum over pieces, row mean subtracted, learned scale.
    """

    def __init__(self, n_in, n_units, pieces):
        super(Model, self).__init__()
        self.lin = nn.Linear(n_in, n_units * pieces)
        self.pieces = pieces
        self.gain = nn.Parameter(torch.randn(n_units))

    def forward(self, x):
        z = self.lin(x)
        z = z.reshape(z.shape[0], -1, self.pieces).amax(dim=-1)
        z = z - z.mean(dim=1, keepdim=True)
        return z * self.gain


n_in, n_units, pieces = 1024, 1000, 5


def get_inputs():
    return [torch.randn(5000, n_in) * 2]


def get_init_inputs():
    return [n_in, n_units, pieces]
