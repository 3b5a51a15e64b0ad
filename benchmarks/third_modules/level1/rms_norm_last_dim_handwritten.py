import torch
import torch.nn as nn


class Model(nn.Module):
    """
    RMS normalisation over the last dimension with a learned gain of the form (1 + w).
    """

    def __init__(self, dim: int, eps: float = 1e-6):
        super(Model, self).__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(dim) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inv_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return x * inv_rms * (1.0 + self.weight)


batch_size = 12
seq_len = 2048
dim = 5120


def get_inputs():
    return [torch.randn(batch_size, seq_len, dim)]


def get_init_inputs():
    return [dim, 1e-5]
