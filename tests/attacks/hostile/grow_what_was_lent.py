"""Lets the room for its built extension grow, which the judge holds open, and closes its own end: memory that counts for nobody.

So it could have a gibibyte, the largest file, beyond its limit. Works on when that goes through, and ends with an error when it does not.
"""
# task: relu
# expect: runtime_error

import os
import sys

import torch
from torch import nn

# A source with the word load_inline in it is lent room for what it builds.


def grow(folder):
    for number in range(3, 64):
        try:
            place = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if "memfd:bottega-payload" in place:
            os.ftruncate(number, 1 << 30)
            os.pwrite(number, bytes(1 << 20), 1 << 29)
    return b""


sys.modules["bottega.judge.module_host"].pack = grow


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
