import torch
import torch.nn as nn


class Model(nn.Module):
    """
    C = A^T B, with A stored as (K, M) and none of the sizes a power of two.
    """

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A.T, B)


K = 4099
M = 3001
N = 1537


def get_inputs():
    A = torch.rand(K, M)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs():
    return []
