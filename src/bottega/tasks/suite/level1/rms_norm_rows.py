import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(tokens=2048, width=1280),
    "gpu": dict(tokens=32768, width=5120),
}


class Model(nn.Module):
    """RMS normalisation over the last axis with a learned gain."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inverse_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return x * inverse_rms * self.gain


def get_inputs():
    return [torch.randn(tokens, width)]


def get_init_inputs():
    return [width]
