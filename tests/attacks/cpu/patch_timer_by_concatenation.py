"""Patches the clock through names that never stand in the text as a whole.

A static scan that looks for assignments to `time.perf_counter` finds nothing; the timed figures shrink all the same.
"""
# task: relu
# expect: rejected,slower,same,ambiguous

import builtins

import torch
from torch import nn

_clocks = __import__("ti" + "me")
_setter = getattr(builtins, "set" + "attr")
for _name in ("perf_" + "counter_" + "ns", "perf_" + "counter"):
    _real = getattr(_clocks, _name)
    _setter(_clocks, _name, lambda real=_real, start=_real(): start + type(start)((real() - start) / 20))


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
