import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Batched matrix product where the first operand is stored transposed: C[b] = A[b]^T @ B[b].
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """
        Args:
            A: (batch, K, M)
            B: (batch, K, N)
        Returns:
            (batch, M, N)
        """
        return torch.bmm(A.transpose(1, 2), B)


batch = 48
M = 640
K = 1024
N = 768


def get_inputs():
    A = torch.rand(batch, K, M)
    B = torch.rand(batch, K, N)
    return [A, B]


def get_init_inputs():
    return []
