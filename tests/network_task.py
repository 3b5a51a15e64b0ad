"""A task with layers of several kinds and two inputs, for the tests of what is done to networks."""

TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 4)

    def forward(self, x, context):
        return self.fc(self.norm(self.conv(x)).mean((2, 3))) + context


def get_inputs():
    return [torch.randn(2, 3, 8, 8), torch.randn(2, 4)]


def get_init_inputs():
    return []
"""
SMALL = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.conv(x).mean((2, 3)))


def get_inputs():
    return [torch.rand(2, 3, 8, 8)]


def get_init_inputs():
    return []
"""
FORGETFUL = """class ModelNew(Model):
    def __init__(self):
        super().__init__()
        for layer in self.modules():
            if type(layer) is nn.Conv2d:
                layer.__class__ = Conv2d
"""
"""An answer to it that leaves one kind of layer out."""
