import torch
import torch.nn as nn


class Model(nn.Module):
    """
    ELU activation.
    """

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.act = nn.ELU(alpha=alpha)

    def forward(self, x):
        return self.act(x)


N = 64
C = 768
L = 1000


def get_inputs():
    return [torch.randn(N, C, L)]


def get_init_inputs():
    return [1.3]
