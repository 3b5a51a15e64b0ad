import torch
import torch.nn as nn

class Model(nn.Module):
    """
    C = A^T * B^T
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, B):
        """
        Args:
            A: tensor of shape (K, M)
            B: tensor of shape (N, K)
        Returns:
            tensor of shape (M, N)
        """
        return torch.matmul(A.t(), B.t())

M = 1536
K = 6144
N = 2560

def get_inputs():
    A = torch.randn(K, M)
    B = torch.randn(N, K)
    return [A, B]

def get_init_inputs():
    return []
