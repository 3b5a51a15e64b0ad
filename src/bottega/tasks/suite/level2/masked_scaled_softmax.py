import math

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=12, heads=6, queries=128, keys=200),
    "gpu": dict(batch=16, heads=16, queries=512, keys=1024),
}
HEAD_DIM = 16


class Model(nn.Module):
    """Attention weights from raw scores: scale, add a bias per head and key, hide padding, softmax."""

    def __init__(self, heads: int, keys: int, head_dim: int):
        super().__init__()
        self.scale = 1.0 / math.sqrt(head_dim)
        self.bias = nn.Parameter(torch.randn(heads, 1, keys))

    def forward(self, scores: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        scores = scores * self.scale + self.bias
        scores = scores.masked_fill(padding[:, None, None, :], torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1)


def get_inputs():
    scores = torch.randn(batch, heads, queries, keys) * 8.0
    lengths = torch.randint(keys // 3, keys, (batch, 1))
    padding = torch.arange(keys) >= lengths
    return [scores, padding]


def get_init_inputs():
    return [heads, keys, HEAD_DIM]
