"""Stops the clock for one call in five, so that a few samples last exactly nothing.

A minimum, a geometric mean or a best-of-n collapses to zero from a single such sample.
"""
# task: relu
# expect: slower,ambiguous,rejected

import time

import torch
from torch import nn

_real = time.perf_counter_ns
_frozen_at = None
time.perf_counter_ns = lambda: _real() if _frozen_at is None else _frozen_at
time.perf_counter = lambda: time.perf_counter_ns() / 1e9


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        global _frozen_at
        self.calls += 1
        y = torch.relu(torch.relu(torch.relu(x)))
        _frozen_at = None
        if self.calls % 5 == 4:
            _frozen_at = _real()
        return y
