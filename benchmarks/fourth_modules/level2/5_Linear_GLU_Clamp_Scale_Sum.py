import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Projects to twice the width, gates one half with the other, clamps, scales and sums each row.
    """
    def __init__(self, in_features: int, hidden: int, scale: float, lo: float, hi: float):
        super().__init__()
        self.proj = nn.Linear(in_features, 2 * hidden)
        self.scale, self.lo, self.hi = scale, lo, hi

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.glu(self.proj(x), dim=-1)
        h = torch.clamp(h, self.lo, self.hi) * self.scale
        return h.sum(dim=1, keepdim=True)


batch_size = 2048
in_features = 4096
hidden = 2048


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, hidden, 0.25, -0.4, 0.6]
