import torch
import torch.nn as nn


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class MixerLayer(nn.Module):
    def __init__(self, tokens, channels, token_hidden, channel_hidden):
        super().__init__()
        self.ln1 = nn.LayerNorm(channels)
        self.token_mix = FeedForward(tokens, token_hidden)
        self.ln2 = nn.LayerNorm(channels)
        self.channel_mix = FeedForward(channels, channel_hidden)

    def forward(self, x):
        x = x + self.token_mix(self.ln1(x).mT).mT
        x = x + self.channel_mix(self.ln2(x))
        return x


class Model(nn.Module):
    """MLP-Mixer: token mixing and channel mixing MLPs only."""

    def __init__(self, image, patch, channels, token_hidden, channel_hidden, layers, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, patch, patch)
        n = (image // patch) ** 2
        self.layers = nn.Sequential(*(MixerLayer(n, channels, token_hidden, channel_hidden) for _ in range(layers)))
        self.ln = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).mT
        x = self.layers(x)
        return self.head(self.ln(x).mean(1))


batch = 48
image = 160
patch = 16


def get_inputs():
    return [torch.rand(batch, 3, image, image)]


def get_init_inputs():
    return [image, patch, 384, 192, 1536, 4, 120]
