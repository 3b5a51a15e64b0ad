import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch_size=384, features=512),
    "gpu": dict(batch_size=8192, features=2048),
}


class Model(nn.Module):
    """y = mish(x W + b) + skip, clipped to a band."""

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        nn.init.normal_(self.linear.weight, std=features**-0.5)
        nn.init.normal_(self.linear.bias, std=0.3)

    def forward(self, x, skip):
        y = nn.functional.mish(self.linear(x)) + skip
        return torch.clamp(y, -2.5, 2.5)


def get_inputs():
    return [torch.randn(batch_size, features), torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]
