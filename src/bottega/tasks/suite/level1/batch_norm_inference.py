import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(batch=48, features=48, height=48, width=48),
    "gpu": dict(batch=128, features=128, height=112, width=112),
}


class Model(nn.Module):
    """Batch norm as it is deployed: the statistics are buffers, and do not change."""

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.bias = nn.Parameter(torch.randn(features) * 0.5)
        self.register_buffer("running_mean", torch.randn(features) * 0.5)
        self.register_buffer("running_var", torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False)


def get_inputs():
    return [torch.randn(batch, features, height, width)]


def get_init_inputs():
    return [features]
