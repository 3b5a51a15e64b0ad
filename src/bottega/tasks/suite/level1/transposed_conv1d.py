"""Upsample a spectrogram towards audio: a strided transposed convolution whose windows overlap."""

import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=4, mels=64, hidden=32, frames=600),
    "gpu": dict(batch=32, mels=256, hidden=128, frames=4000),
}


class Model(nn.Module):
    def __init__(self, mels, hidden):
        super().__init__()
        self.up = nn.ConvTranspose1d(mels, hidden, kernel_size=16, stride=8, padding=4)

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.randn(batch, mels, frames)]


def get_init_inputs():
    return [mels, hidden]
