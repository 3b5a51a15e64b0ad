import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Computes A^T B, A being stored as (K, M).
    """

    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return torch.matmul(A.transpose(0, 1), B)


K = 3584
M = 1792
N = 2304


def get_inputs():
    return [torch.randn(K, M), torch.randn(K, N)]


def get_init_inputs():
    return []
