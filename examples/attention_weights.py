import torch
import torch.nn as nn


class Model(nn.Module):
    """Weights of attention: scores, scaled, with a learned bias for each key, through a softmax."""

    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, scores):
        return torch.softmax(scores * 0.125 + self.bias, dim=-1)


def get_inputs():
    return [torch.randn(16384, 512)]


def get_init_inputs():
    return [512]
