import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=24, steps=500, channels=128),
    "gpu": dict(batch=64, steps=4000, channels=512),
}


class Model(nn.Module):
    """Running total over the time axis of (batch, time, channel)."""

    def forward(self, increments):
        return increments.cumsum(dim=1)


def get_inputs():
    return [torch.randn(batch, steps, channels)]


def get_init_inputs():
    return []
