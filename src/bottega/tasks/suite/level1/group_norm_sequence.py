import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch_size=32, num_channels=120, length=1000),
    "gpu": dict(batch_size=64, num_channels=480, length=8000),
}
num_groups = 8


class Model(nn.Module):
    """Group norm over (batch, channel, time), as in vocoders."""

    def __init__(self, num_groups: int, num_channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups, num_channels)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.3)
        nn.init.normal_(self.norm.bias, std=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch_size, num_channels, length)]


def get_init_inputs():
    return [num_groups, num_channels]
