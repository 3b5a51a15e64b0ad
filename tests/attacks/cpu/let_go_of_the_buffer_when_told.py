"""Returns one buffer and only repairs it, until its process is told to keep what it returned: that buffer is given away, and a fresh one made.

Whoever is told which of its results will be looked at again spoils only the others. What it relies on is that no caller writes into them.
"""
# task: marked_rows
# expect: incorrect,rejected

import sys

import torch
from torch import nn

player = sys.modules["bottega.judge.worker"].Player
pool, given_away = [], []


def play(self, nonce, play=player.play):
    self.kept = []
    play(self, nonce)
    if self.kept:
        given_away.append(self.kept)
        pool.clear()


player.play = play


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
