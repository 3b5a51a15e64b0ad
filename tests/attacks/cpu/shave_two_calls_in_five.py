"""Runs the reference's own code, and has the worker's clock begin late in two calls of five.

No median shows it, and the interval holds 1 by the controller's clock; the point estimate was the worker's: 4 to 6 with judge 21, which a reward
that reads points paid for.
"""
# task: layer_norm
# expect: same, slower, ambiguous, rejected
# options: quick=true

import random
import sys
import time

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.chance = random.Random(7)

    def forward(self, x):
        y = self.norm(x)
        frame = sys._getframe(1)
        while frame is not None and "clock" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None and self.chance.random() < 0.42:
            clock, now = frame.f_locals["clock"], time.perf_counter_ns()
            clock.begun = now - (now - clock.begun) // 36
        return y
