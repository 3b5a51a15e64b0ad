"""Functions, and no module at all."""

import torch
import torch.nn.functional as F


def apply_rotary(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    left, right = (q[..., ::2], q[..., 1::2]) if interleaved else q.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def geglu(x, weight, *, approximate="tanh"):
    value, gate = F.linear(x, weight).chunk(2, dim=-1)
    return value * F.gelu(gate, approximate=approximate)
