"""A classifier for small images: three convolutions with frozen batch norm, max pooling, two linear layers."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=8, side=32, width=24, classes=12),
    "gpu": dict(batch=512, side=64, width=48, classes=100),
}


class FrozenBatchNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.bias = nn.Parameter(torch.randn(features) * 0.2)
        self.register_buffer("mean", torch.randn(features) * 0.2)
        self.register_buffer("variance", torch.rand(features) + 0.5)

    def forward(self, x):
        return nn.functional.batch_norm(x, self.mean, self.variance, self.weight, self.bias)


class Model(nn.Module):
    def __init__(self, side, width, classes):
        super().__init__()
        stages, channels = [], 3
        for out in (width, 2 * width, 4 * width):
            conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            stages += [conv, FrozenBatchNorm(out), nn.ReLU(), nn.MaxPool2d(2)]
            channels = out
        self.features = nn.Sequential(*stages)
        self.fc1 = nn.Linear(4 * width * (side // 8) ** 2, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x):
        x = torch.flatten(self.features(x), 1)
        return self.fc2(torch.tanh(self.fc1(x)))


def get_inputs():
    return [torch.randn(batch, 3, side, side)]


def get_init_inputs():
    return [side, width, classes]
