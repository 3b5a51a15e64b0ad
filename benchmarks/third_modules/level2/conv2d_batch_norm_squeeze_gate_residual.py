import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """1x1 convolution, batch norm, channel gate from the global average, residual and ReLU."""

    def __init__(self, channels, eps):
        super().__init__()
        self.pointwise = nn.Conv2d(channels, channels, 1)
        self.bn = nn.BatchNorm2d(channels, eps=eps)
        self.gate_weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.gate_bias = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        identity = x
        x = self.bn(self.pointwise(x))
        pooled = F.adaptive_avg_pool2d(x, 1)
        gate = torch.sigmoid(pooled * self.gate_weight + self.gate_bias)
        x = x * gate
        x += identity
        return F.relu(x)


batch_size = 64
channels = 256
height = width = 56


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, 1e-3]
