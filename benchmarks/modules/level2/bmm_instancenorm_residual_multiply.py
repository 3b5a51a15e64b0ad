import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Batched product, instance normalisation of every matrix, residual addition, multiplication.
    """

    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, a, b, c):
        p = torch.bmm(a, b)
        p = F.instance_norm(p.unsqueeze(1), eps=self.eps).squeeze(1)
        p = p + c
        return p * c


B = 64
M = 480
K = 256
N = 512


def get_inputs():
    return [torch.randn(B, M, K), torch.randn(B, K, N), torch.randn(B, M, N)]


def get_init_inputs():
    return []
