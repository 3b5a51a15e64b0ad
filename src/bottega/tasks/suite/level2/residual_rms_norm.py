import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=12, tokens=256, width=768),
    "gpu": dict(batch=16, tokens=2048, width=4096),
}


class Model(nn.Module):
    """Add to the residual stream and normalise the sum; both are needed further on."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = residual + x
        variance = residual.square().mean(-1, keepdim=True)
        return residual * torch.rsqrt(variance + 1e-5) * self.weight, residual


def get_inputs():
    return [torch.randn(batch, tokens, width), torch.randn(batch, tokens, width) * 2]


def get_init_inputs():
    return [width]
