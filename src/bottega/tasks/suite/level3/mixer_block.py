import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=32, patches=49, channels=128, token_hidden=64, channel_hidden=256),
    "gpu": dict(batch=128, patches=196, channels=512, token_hidden=256, channel_hidden=2048),
}


def mlp(features, hidden):
    return nn.Sequential(nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, features))


class Model(nn.Module):
    """An MLP-Mixer block: mix over patches, then over channels."""

    def __init__(self, patches, channels, token_hidden, channel_hidden):
        super().__init__()
        self.token_norm = nn.LayerNorm(channels)
        self.token_mix = mlp(patches, token_hidden)
        self.channel_norm = nn.LayerNorm(channels)
        self.channel_mix = mlp(channels, channel_hidden)
        for norm in (self.token_norm, self.channel_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.5, 0.5)

    def forward(self, x):
        x = x + self.token_mix(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.channel_norm(x))


def get_inputs():
    return [torch.randn(batch, patches, channels)]


def get_init_inputs():
    return [patches, channels, token_hidden, channel_hidden]
