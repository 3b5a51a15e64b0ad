"""Leaves a torch dispatch mode switched on that puts off every copy made after the call.

Nothing is patched by name, and yet the harness's own `copy_` runs through the candidate's code.
"""
# task: relu
# expect: incorrect,rejected,runtime_error,slower,ambiguous

import threading

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class PutOff(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.copy_.default:
            threading.Timer(0.005, function, args, kwargs).start()
            return args[0]
        return function(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = PutOff()
        self.mode.__enter__()

    def forward(self, x):
        wide = torch.relu(torch.relu(torch.relu(x.repeat(1, 2))))
        return wide[:, : x.shape[1]]
