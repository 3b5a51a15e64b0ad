"""Lowers the priority of every other process of the judge and pins them all to one core.

The baseline runs elsewhere, and can still be slowed down from here while the same user owns both.
"""
# task: relu
# expect: slower,ambiguous,rejected

import os

import torch
from torch import nn


def neighbours():
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            command = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if pid != os.getpid() and (pid == os.getppid() or b"bottega" in command):
            yield pid


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for pid in neighbours():
            for slow_down in (
                lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
                lambda pid: os.sched_setaffinity(pid, {0}),
                lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
            ):
                try:
                    slow_down(pid)
                except OSError:
                    continue

    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
