"""Networks in small: blocks in loops, layers spelled in every way, and what keeps a network from being captured."""

from __future__ import annotations

from bottega.core.task import Task

RESIDUAL = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """Two convolutions and a way round them."""

    expansion = 1

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)  # keeps the size
        self.norm2 = nn.BatchNorm2d(outputs)
        self.way = nn.Sequential()
        if stride != 1 or inputs != outputs * self.expansion:
            self.way = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        """é: bytes and characters differ here"""; out = F.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return F.relu(out + self.way(x))


class Model(nn.Module):
    def __init__(self, classes=400):
        super(Model, self).__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3)
        self.blocks = self._make([(16, 16, 1), (16, 32, 2)])
        self.head = nn.Linear(32, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)

    def _make(self, plan):
        # One block for each row.
        return nn.Sequential(*[Block(*row) for row in plan])

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(x.flatten(2).transpose(1, 2)).mean(1)


batch, size = 2, 16


def get_inputs():
    return [torch.randn(batch, 3, size, size)]


def get_init_inputs():
    return []
'''

MIXED = """
import math

import torch
from torch import nn
from torch.nn import Conv2d as Convolution, Linear


def widened(width):
    return WIDTHS[0] * width


WIDTHS = (2, 4)
HIDDEN = 48


class Model(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.inside = torch.nn.Conv1d(width, HIDDEN, kernel, padding=1)
        self.planes = Convolution(HIDDEN, 16, (1, 3), stride=(1, 2), dilation=(1, 2), padding=(0, 2))
        self.up = nn.ConvTranspose2d(16, 16, (4, 3), stride=2, padding=(1, 0), output_padding=1)
        self.out = Linear(18, widened(16), bias=False)
        self.last = nn.modules.linear.Linear(32, 33)

    def forward(self, x):
        h = torch.tanh(self.inside(x))
        h = self.up(self.planes(h.unsqueeze(2)).relu())
        h = self.out(h[..., :18].transpose(1, 2))
        return self.last(h.transpose(2, 3).reshape(-1, 32)) / math.sqrt(2.0), h


def get_inputs():
    return [torch.randn(2, 16, 18)]


def get_init_inputs():
    return [16, 3]
"""

MLP = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


def get_inputs():
    return [torch.randn(3, 35, 40)]


def get_init_inputs():
    return [[40, 70, 33, 700, 36, 32]]
"""

DRAWS = MLP.replace("nn.ReLU()", "nn.Dropout(0.5)")
ASKS = MLP.replace("return self.net(x)", "h = self.net(x)\n        return h if h.sum() > 0 else -h")
KEEPS = MLP.replace("return self.net(x)", "self.last = self.net(x)\n        return self.last")
HOST = MLP.replace("return self.net(x)", "return self.net(x + torch.ones(40).to(x.device))")
HELD = MLP.replace("return self.net(x)", "return self.net(x + torch.ones(40, device=x.device))")
COUNTS = MLP.replace("return self.net(x)", "self.seen.add_(x.mean())\n        return self.net(x)").replace(
    "        layers = []", "        self.register_buffer('seen', torch.zeros(()))\n        layers = []"
)


def network(name: str, source: str) -> Task:
    return Task(source.lstrip("\n"), name, level=3)


NETWORKS = {name: network(name, source) for name, source in (("residual", RESIDUAL), ("mixed", MIXED), ("mlp", MLP))}
