"""Keeps threads hammering the memory bus whenever the candidate is not being called.

A baseline timed between two candidate calls, in this process or beside it, gets what bandwidth is left.
"""
# task: relu
# expect: slower,ambiguous,rejected

import os
import threading

import torch
from torch import nn

working = threading.Event()


def hammer():
    source, target = torch.ones(1 << 24), torch.empty(1 << 24)
    while True:
        if not working.is_set():
            target.copy_(source)


class ModelNew(nn.Module):
    started = False

    def forward(self, x):
        working.set()
        if not self.started:
            self.started = True
            for _ in range(os.cpu_count() or 1):
                threading.Thread(target=hammer, daemon=True).start()
        y = torch.relu(torch.relu(torch.relu(x)))
        working.clear()
        return y
