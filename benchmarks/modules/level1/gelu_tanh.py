import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """
    GELU with the tanh approximation, written out.
    """

    def __init__(self):
        super().__init__()
        self.c = math.sqrt(2.0 / math.pi)

    def forward(self, x):
        inner = self.c * (x + 0.044715 * x**3)
        return 0.5 * x * (1.0 + torch.tanh(inner))


TOKENS = 5600
HIDDEN = 5120


def get_inputs():
    return [torch.randn(TOKENS, HIDDEN)]


def get_init_inputs():
    return []
