import torch
import torch.nn as nn


class Model(nn.Module):
    """One matrix-vector product per batch entry."""

    def __init__(self):
        super().__init__()

    def forward(self, mats, vecs):
        # (B, R, C) x (B, C) -> (B, R)
        return torch.matmul(mats, vecs.unsqueeze(-1)).squeeze(-1)


B = 80
R = 2560
C = 1500


def get_inputs():
    return [torch.rand(B, R, C), torch.rand(B, C)]


def get_init_inputs():
    return []
