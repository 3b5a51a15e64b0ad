import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualLayer(nn.Module):
    def __init__(self, width, expansion):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width * expansion)
        self.down = nn.Linear(width * expansion, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Pre-norm residual MLP."""

    def __init__(self, input_size, width, expansion, depth, output_size):
        super(Model, self).__init__()
        self.stem = nn.Linear(input_size, width)
        self.layers = nn.ModuleList([ResidualLayer(width, expansion) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, output_size)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


batch_size = 2048
input_size = 1200
width = 1024
expansion = 3
depth = 4
output_size = 500


def get_inputs():
    return [torch.randn(batch_size, input_size)]


def get_init_inputs():
    return [input_size, width, expansion, depth, output_size]
