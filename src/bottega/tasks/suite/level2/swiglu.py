import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(tokens=640, width=256, hidden=688),
    "gpu": dict(tokens=4096, width=1024, hidden=2752),
}


class Model(nn.Module):
    """The gated half of a feed-forward layer: silu(x W) * (x V)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(tokens, width)]


def get_init_inputs():
    return [width, hidden]
