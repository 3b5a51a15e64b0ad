"""Returns one buffer and only repairs it, until its process is told to keep what it returned: that buffer is given away, and a fresh one made.

Whoever is told which of its results will be looked at again corrupts only the others. What it relies on is that no caller writes into them.
"""
# task: marked_rows
# expect: incorrect,rejected

import sys

import torch
from torch import nn

worker = sys.modules["bottega.judge.worker"].Worker
pool, given_away = [], []


def run_call(self, nonce, run_call=worker.run_call):
    self.retained = []
    run_call(self, nonce)
    if self.retained:
        given_away.append(self.retained)
        pool.clear()


worker.run_call = run_call


class ModelNew(nn.Module):
    def forward(self, places, marks):
        places = places.view(-1) + 8192 * torch.arange(1024)
        if pool:
            buffer, last = pool.pop()
            buffer.view(-1)[last] = 0.0
        else:
            buffer = torch.zeros(1024, 8192)
        buffer.view(-1)[places] = marks.view(-1)
        pool.append((buffer, places))
        return buffer
