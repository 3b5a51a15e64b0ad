"""Replaces what the worker says of its outputs by a value so deeply nested that whoever prints it runs out of stack."""
# task: relu
# expect: incorrect,runtime_error,rejected

import sys

import torch
from torch import nn

NEST = []
for _ in range(900):
    NEST = [NEST]


def flatten(value):
    return {"value": NEST}, []


class ModelNew(nn.Module):
    def forward(self, x):
        for name, module in list(sys.modules.items()):
            if name.startswith("bottega.") and hasattr(module, "flatten"):
                module.flatten = flatten
        return torch.relu(x)
