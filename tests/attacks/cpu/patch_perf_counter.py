"""Slows every Python clock down twenty times while taking three times as long as the reference.

In a harness that times in the candidate's process, a kernel at a third of the speed reads as seven times faster.
"""
# task: relu
# expect: rejected,slower,same,ambiguous

import time

import torch
from torch import nn


def crawling(clock):
    start = clock()
    return lambda: start + type(start)((clock() - start) / 20)


for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    for suffix in ("", "_ns"):
        setattr(time, name + suffix, crawling(getattr(time, name + suffix)))


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
