"""Returns a plain tensor of garbage whose own instance carries forged methods.

An exact type check passes; `.cpu()`, `.clone()` or `torch.allclose` through `__eq__`-style methods compute on demand.
"""
# task: relu
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for name in ("cpu", "clone", "detach", "contiguous", "double", "float", "numpy", "to"):
            setattr(y, name, lambda *_, **__: torch.relu(x))
        y.isclose = lambda *_, **__: torch.ones_like(x, dtype=torch.bool)
        y.allclose = y.equal = lambda *_, **__: True
        return y
