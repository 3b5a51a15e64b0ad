import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(slots=8192, tokens=4096, heads=4, head_dim=64),
    "gpu": dict(slots=65536, tokens=32768, heads=8, head_dim=128),
}


class Model(nn.Module):
    """Project new keys, normalise them per head and write them into their slots of a cache, in place."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(head_dim, head_dim) / head_dim**0.5)

    def forward(self, cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        keys = nn.functional.normalize(keys @ self.weight, dim=-1) * keys.size(-1) ** 0.5
        return cache.index_copy_(0, slots, keys)


def get_inputs():
    cache = torch.randn(slots, heads, head_dim)
    keys = torch.randn(tokens, heads, head_dim)
    return [cache, keys, torch.randperm(slots)[:tokens]]


def get_init_inputs():
    return [head_dim]
