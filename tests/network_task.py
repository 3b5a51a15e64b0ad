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
