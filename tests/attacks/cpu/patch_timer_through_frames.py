"""Walks up the call stack and swaps the clock in the globals of whoever called.

Beats a harness that kept its own reference to the clock before it imported the candidate.
"""
# task: relu
# expect: rejected,slower,same,ambiguous

import sys
import time
from types import SimpleNamespace

import torch
from torch import nn

CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")


def crawling(clock):
    start = clock()
    return lambda: start + type(start)((clock() - start) / 20)


FORGED = {name: crawling(getattr(time, name)) for name in CLOCKS}
FORGED_MODULE = SimpleNamespace(**{**vars(time), **FORGED})


def infect_callers():
    frame = sys._getframe(1)
    while frame is not None:
        names = frame.f_globals
        for key, value in list(names.items()):
            if value is time and names is not globals():
                names[key] = FORGED_MODULE
            elif any(value is getattr(time, clock) for clock in CLOCKS):
                names[key] = FORGED[value.__name__]
        frame = frame.f_back


class ModelNew(nn.Module):
    def forward(self, x):
        infect_callers()
        return torch.relu(torch.relu(torch.relu(x)))
