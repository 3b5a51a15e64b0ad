import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=6, channels=64, side=28),
    "gpu": dict(batch=32, channels=256, side=56),
}


class Model(nn.Module):
    """Depthwise 7x7, layer norm over channels, a pointwise MLP, a scale per channel, skip."""

    def __init__(self, channels: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.expand = nn.Linear(channels, 4 * channels)
        self.project = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.depthwise(x).permute(0, 2, 3, 1)
        h = self.project(nn.functional.gelu(self.expand(self.norm(h))))
        return x + (self.scale * h).permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
