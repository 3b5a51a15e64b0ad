"""Leaves burning processes in a group of their own, whose last tie to the session is a parent that ends while the sandbox is frozen.

The kernel continues the stopped members of a group that becomes orphaned. They burn every core during the baseline's calls.
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
    time.sleep(0.001)
    os.kill(parent, signal.SIGKILL)


def leave_a_group_after_every_call():
    while True:
        while resting[0]:
            time.sleep(0.0005)
        leave_a_group()
        while not resting[0]:
            time.sleep(0.0005)


class ModelNew(nn.Module):
    started = False

    def forward(self, x):
        resting[0] = 1
        if not self.started:
            self.started = True
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            threading.Thread(target=leave_a_group_after_every_call, daemon=True).start()
        y = torch.relu(x)
        resting[0] = 0
        return y
