"""Gate the residual stream of a transformer layer and normalise it: elementwise work and a reduction, which torch runs one by one."""

import torch
from torch import nn


class GatedNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor, gate: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x = residual + x * torch.nn.functional.silu(gate)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain


def get_init_inputs():
    return [1024]


def get_inputs():
    return [torch.randn(2048, 1024) for _ in range(3)]
