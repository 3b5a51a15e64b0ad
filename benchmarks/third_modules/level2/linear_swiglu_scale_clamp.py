import torch
import torch.nn as nn


class Model(nn.Module):
    """One projection split in two halves: silu(a) * b, learned scale, clamp."""

    def __init__(self, in_features, hidden, limit):
        super().__init__()
        self.proj = nn.Linear(in_features, 2 * hidden)
        self.scale = nn.Parameter(torch.rand(hidden))
        self.limit = limit

    def forward(self, x):
        a, b = self.proj(x).chunk(2, dim=-1)
        y = nn.functional.silu(a) * b
        y = y * self.scale
        return torch.clamp(y, min=-self.limit, max=self.limit)


tokens = 4096
in_features = 1536
hidden = 4096
limit = 0.75


def get_inputs():
    return [torch.randn(tokens, in_features)]


def get_init_inputs():
    return [in_features, hidden, limit]
