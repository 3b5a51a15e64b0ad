import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(tokens=4096, heads=12, head_dim=64, out_dim=72),
    "gpu": dict(tokens=32768, heads=16, head_dim=128, out_dim=96),
}


class Model(nn.Module):
    """A different small matrix for every head; neither operand has the head axis where a batched matmul wants it."""

    def __init__(self, heads, head_dim, out_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, head_dim, out_dim) / head_dim**0.5)

    def forward(self, x):
        return torch.einsum("thd,hde->the", x, self.weight)


def get_inputs():
    return [torch.randn(tokens, heads, head_dim)]


def get_init_inputs():
    return [heads, head_dim, out_dim]
