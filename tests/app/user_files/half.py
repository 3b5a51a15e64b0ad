"""In bfloat16, as it is run."""

import torch
from torch import nn


class GatedNorm(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))

    def forward(self, x, gate):
        x = (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        return self.weight * x * torch.nn.functional.silu(gate)
