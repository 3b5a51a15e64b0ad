import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Simple model that performs a matrix-vector product.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """
        Args:
            A: (M, K)
            x: (K, 1)

        Returns:
            (M, 1)
        """
        return torch.matmul(A, x)

M = 1536
K = 36864

def get_inputs():
    A = torch.randn(M, K)
    x = torch.randn(K, 1)
    return [A, x]

def get_init_inputs():
    return []
