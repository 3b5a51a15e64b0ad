"""Sleeps inside C while holding the interpreter's lock: no Python in this process runs any more, watchdogs included."""
# task: relu
# expect: timeout
# options: timeout=4

import ctypes

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ctypes.PyDLL(None).sleep(1_000_000)
        return x
