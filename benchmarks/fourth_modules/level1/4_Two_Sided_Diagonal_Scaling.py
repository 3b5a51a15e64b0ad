import torch
import torch.nn as nn


class Model(nn.Module):
    """
    D = diag(r) @ A @ diag(c)
    """

    def __init__(self):
        super().__init__()

    def forward(self, r, A, c):
        return torch.diag(r) @ A @ torch.diag(c)


M, N = 4096, 3584


def get_inputs():
    return [torch.rand(M), torch.rand(M, N), torch.rand(N)]


def get_init_inputs():
    return []
