import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Large inner dimension product A B^T in bfloat16.
    """

    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return A @ B.t()


M = 640
N = 384
K = 65536


def get_inputs():
    return [torch.randn(M, K).bfloat16(), torch.randn(N, K).bfloat16()]


def get_init_inputs():
    return []
