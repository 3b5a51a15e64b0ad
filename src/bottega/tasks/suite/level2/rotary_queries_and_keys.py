import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=8, length=256, q_heads=8, k_heads=2, head_dim=64),
    "gpu": dict(batch=16, length=4096, q_heads=16, k_heads=4, head_dim=128),
}


class Model(nn.Module):
    """Rotate queries and keys by their position; the answer is a dictionary."""

    def __init__(self, length: int, head_dim: int, base: float = 10000.0):
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
        self.register_buffer("cos", torch.cos(angles))
        self.register_buffer("sin", torch.sin(angles))

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        cos, sin = self.cos[:, None, :], self.sin[:, None, :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"q": self.rotate(q), "k": self.rotate(k)}


def get_inputs():
    return [torch.randn(batch, length, q_heads, head_dim), torch.randn(batch, length, k_heads, head_dim)]


def get_init_inputs():
    return [length, head_dim]
