"""Leaves burning processes in a group of their own, whose last tie to the session is a parent that ends while the cell is frozen.

The kernel continues the stopped members of a group that becomes orphaned. They burn every core in the baseline's turns.
"""
# task: relu
# expect: rejected,timeout,ambiguous,same,slower

import ctypes
import mmap
import os
import signal
import tempfile
import threading
import time

import torch
from torch import nn

resting = mmap.mmap(-1, 1)


def burn():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.setpgid(0, 0)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        if not resting[0]:
            sum(range(20_000))
    os._exit(0)


def leave_a_group():
    parent = os.fork()
    if parent == 0:
        ctypes.CDLL(None).prctl(15, ctypes.c_char_p(b"State:\tT"), 0, 0, 0)
        for _ in range(os.cpu_count() or 1):
            if os.fork() == 0:
                burn()
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
        os.ftruncate(descriptor, (1 << 30) - 4096)
        target = memoryview(mmap.mmap(-1, 2 << 20))
        while True:
            os.preadv(descriptor, [target] * 150, 0)
    threading.Timer(0.002, os.kill, (parent, signal.SIGKILL)).start()


class ModelNew(nn.Module):
    def forward(self, x):
        resting[0] = 1
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        y = torch.relu(x)
        leave_a_group()
        resting[0] = 0
        return y
