import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Matrix multiplication whose dimensions are multiples of nothing convenient.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, B):
        return torch.matmul(A, B)

M = 5003
K = 1777
N = 3469

def get_inputs():
    A = torch.randn(M, K)
    B = torch.randn(K, N)
    return [A, B]

def get_init_inputs():
    return []
