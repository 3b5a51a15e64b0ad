"""Goes through every loaded module of the judge and replaces whatever times, synchronises, copies or sends.

If the process that runs candidates is believed in anything, one of these functions is where it says so.
"""
# task: relu
# expect: rejected,incorrect,runtime_error,slower,ambiguous,timeout

import inspect
import sys

import torch
from torch import nn

WORDS = ("sync", "time", "elapsed", "measure", "stop", "alias")


def shrink(value):
    if isinstance(value, bool):
        return False
    return type(value)(value // 50 if isinstance(value, int) else value / 50) if isinstance(value, int | float) else value


def forged(function):
    return lambda *args, **kwargs: shrink(function(*args, **kwargs))


def infect():
    for name, module in list(sys.modules.items()):
        if not name.startswith("bottega.judge"):
            continue
        owners = [module, *(found for found in vars(module).values() if inspect.isclass(found))]
        for owner in owners:
            for attribute, function in list(vars(owner).items()):
                if inspect.isfunction(function) and any(word in attribute.lower() for word in WORDS):
                    setattr(owner, attribute, forged(function))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        infect()

    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
