import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Reverse (suffix) cumulative sum over a dimension, counting only the unmasked entries.
    """

    def __init__(self, dim):
        super(Model, self).__init__()
        self.dim = dim

    def forward(self, x, mask):
        x = x.masked_fill(~mask, 0.0)
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


batch_size = 12000
length = 6000
dim = 1


def get_inputs():
    x = torch.randn(batch_size, length)
    mask = torch.rand(batch_size, length) > 0.3
    return [x, mask]


def get_init_inputs():
    return [dim]
