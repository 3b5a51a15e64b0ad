import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Simple model that multiplies two square matrices (C = A * B).
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """
        Args:
            A (torch.Tensor): Matrix of shape (N, N).
            B (torch.Tensor): Matrix of shape (N, N).

        Returns:
            torch.Tensor: Product of shape (N, N).
        """
        return torch.matmul(A, B)

N = 3072

def get_inputs():
    A = torch.randn(N, N)
    B = torch.randn(N, N)
    return [A, B]

def get_init_inputs():
    return []  # No special initialization inputs needed
