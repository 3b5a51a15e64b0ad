"""Has itself continued: a child that was killed inside a long read cannot be stopped, and ends when its sandbox is frozen; its exit signal,
chosen in a raw clone, is SIGCONT.

The threads that it wakes burn every core during the baseline's calls, with the reference's own code for a kernel.
"""
# task: relu
# expect: rejected,timeout,ambiguous,same,slower

import ctypes
import mmap
import os
import platform
import signal
import tempfile
import threading
import time

import torch
from torch import nn

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
libc = ctypes.CDLL(None)
idle = threading.Event()


def burn():
    while True:
        idle.wait()
        torch.ones(1 << 22).sum()


def end_late():
    child = libc.syscall(CLONE, signal.SIGCONT, 0, 0, 0, 0)
    if child == -1:
        child = os.fork()
    if child == 0:
        libc.prctl(15, ctypes.c_char_p(b"State:\tT"), 0, 0, 0)
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
        os.ftruncate(descriptor, (1 << 30) - 4096)
        target = memoryview(mmap.mmap(-1, 2 << 20))
        while True:
            os.preadv(descriptor, [target] * 150, 0)
    time.sleep(0.001)
    os.kill(child, signal.SIGKILL)


def end_late_after_every_call():
    while True:
        idle.wait()
        end_late()
        while idle.is_set():
            time.sleep(0.0005)


class ModelNew(nn.Module):
    started = False

    def forward(self, x):
        idle.clear()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if not self.started:
            self.started = True
            for _ in range(2 * (os.cpu_count() or 1)):
                threading.Thread(target=burn, daemon=True).start()
            threading.Thread(target=end_late_after_every_call, daemon=True).start()
        y = torch.relu(x)
        idle.set()
        return y
