"""Looks for the judge's own files and tries to open them for writing; gives up loudly if it could.

One changed line in the comparison, and every later candidate passes. (It rewrites the first byte with itself.)
"""
# task: relu
# expect: slower,ambiguous,rejected

import pathlib

import bottega
import torch
from torch import nn


def writable(path):
    try:
        with open(path, "r+b") as file:
            first = file.read(1)
            file.seek(0)
            file.write(first)
        return True
    except OSError:
        return False


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        folder = pathlib.Path(bottega.__file__).parent
        open_to_edit = [path.name for path in folder.rglob("*.py") if writable(path)]
        open_to_edit += [path.name for path in pathlib.Path(torch.__file__).parent.glob("*.py") if writable(path)]
        if open_to_edit:
            raise SystemError(f"evaluator files can be edited: {open_to_edit[:5]}")

    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
