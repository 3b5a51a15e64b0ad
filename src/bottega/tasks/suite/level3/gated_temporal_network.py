import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(BATCH=4, CHANNELS=32, LENGTH=600, LAYERS=4),
    "gpu": dict(BATCH=16, CHANNELS=96, LENGTH=8000, LAYERS=4),
}


class Layer(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)
        nn.init.normal_(self.conv.weight, std=(2 * channels) ** -0.5)
        nn.init.normal_(self.mix.weight, std=channels**-0.5)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.dilation, 0))).chunk(2, dim=1)
        h = self.mix(torch.tanh(a) * torch.sigmoid(b))
        return x + h, h


class Model(nn.Module):
    """A small WaveNet: dilated causal layers with gates, the sum of their skips through one more convolution."""

    def __init__(self, channels, layers):
        super().__init__()
        self.layers = nn.ModuleList([Layer(channels, 2**i) for i in range(layers - 1)])
        self.last = Layer(channels, 2 ** (layers - 1))
        self.head = nn.Conv1d(channels, channels // 2, 1)

    def forward(self, x):
        skips = 0
        for layer in self.layers:
            x, h = layer(x)
            skips = skips + h
        return self.head(F.relu(skips + self.last(x)[1]))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS, LAYERS]
