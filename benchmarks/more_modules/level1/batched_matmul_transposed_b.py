import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Batched product of A with the transpose of B, i.e. one score matrix for every batch entry.
    """
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        # A: (b, m, k), B: (b, n, k) -> (b, m, n)
        return torch.bmm(A, B.transpose(1, 2))


batch_size = 48
m = 640
n = 896
k = 384


def get_inputs():
    return [torch.randn(batch_size, m, k), torch.randn(batch_size, n, k)]


def get_init_inputs():
    return []
