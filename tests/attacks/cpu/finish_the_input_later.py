"""Changes only the row that is returned, and the rest of the input after the call was reported done.

A harness that compares inputs in place when it gets round to it sees right values, and timed a fraction of the work.
"""
# task: tanh_in_place
# expect: rejected,incorrect

import sys

from torch import nn

player = sys.modules["bottega.judge.worker"].Player


def finish_later(self, result):
    self.arguments[0][1:].tanh_().tanh_()
    return False


player._aliases = finish_later


class ModelNew(nn.Module):
    def forward(self, x):
        return x[0].tanh_().tanh_().clone()
