import torch
import torch.nn as nn


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, reduced, 1)
        self.fc2 = nn.Conv2d(reduced, channels, 1)
        self.relu = nn.ReLU()
        self.gate = nn.Hardsigmoid()

    def forward(self, x):
        s = x.mean(dim=(2, 3), keepdim=True)
        return x * self.gate(self.fc2(self.relu(self.fc1(s))))


class InvertedResidual(nn.Module):
    def __init__(self, cin, hidden, cout, kernel, stride, use_se):
        super().__init__()
        layers = [
            nn.Conv2d(cin, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
        ]
        if use_se:
            layers.append(SqueezeExcite(hidden, hidden // 4))
        layers += [nn.Conv2d(hidden, cout, 1, bias=False), nn.BatchNorm2d(cout)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


class Model(nn.Module):
    """Three inverted residual blocks in the manner of MobileNetV3."""

    def __init__(self, channels):
        super().__init__()
        self.blocks = nn.Sequential(
            InvertedResidual(channels, channels * 3, channels, 3, 1, False),
            InvertedResidual(channels, channels * 4, channels * 2, 5, 2, True),
            InvertedResidual(channels * 2, channels * 6, channels * 2, 5, 1, True),
        )

    def forward(self, x):
        return self.blocks(x)


batch_size = 32
channels = 24
height, width = 96, 80


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels]
