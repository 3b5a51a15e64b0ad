import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    MLP-mixer block: an MLP over the tokens and an MLP over the channels, both residual.
    """

    def __init__(self, tokens, channels, token_hidden, channel_hidden):
        super(Model, self).__init__()
        self.ln_tokens = nn.LayerNorm(channels)
        self.token_in = nn.Linear(tokens, token_hidden)
        self.token_out = nn.Linear(token_hidden, tokens)
        self.ln_channels = nn.LayerNorm(channels)
        self.channel_in = nn.Linear(channels, channel_hidden)
        self.channel_out = nn.Linear(channel_hidden, channels)

    def forward(self, x):
        y = self.ln_tokens(x).transpose(1, 2)
        y = self.token_out(F.gelu(self.token_in(y)))
        x = x + y.transpose(1, 2)
        y = self.ln_channels(x)
        y = self.channel_out(F.gelu(self.channel_in(y)))
        return x + y


tokens = 196
channels = 512


def get_inputs():
    return [torch.randn(48, tokens, channels)]


def get_init_inputs():
    return [tokens, channels, 256, 1536]
