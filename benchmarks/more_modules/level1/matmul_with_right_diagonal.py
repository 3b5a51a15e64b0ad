import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Multiplies a dense matrix by a diagonal matrix from the right: C = A @ diag(d).
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, d):
        """
        :param A: dense matrix, (M, N)
        :param d: the diagonal, (N,)
        """
        return A @ torch.diag(d)

M = 6144
N = 4096

def get_inputs():
    A = torch.randn(M, N)
    d = torch.randn(N)
    return [A, d]

def get_init_inputs():
    return []
