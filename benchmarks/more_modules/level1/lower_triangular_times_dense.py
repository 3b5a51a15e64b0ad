import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Multiplies a lower triangular matrix with a dense one. Only the lower part of the first
    argument counts.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, L, B):
        return torch.matmul(torch.tril(L), B)

N = 4096
P = 2048

def get_inputs():
    L = torch.randn(N, N)
    B = torch.randn(N, P)
    return [L, B]

def get_init_inputs():
    return []
