"""Keeps a thread inside long reads of a sparse file, which no signal interrupts, under the name `State:<TAB>T`.

A judge that looks for the word `State:` in its status takes it for stopped: it burns a core during the baseline's calls, and rests in its own.
"""
# task: relu
# expect: rejected,timeout,ambiguous,same,slower

import ctypes
import mmap
import os
import tempfile
import threading

import torch
from torch import nn

resting = threading.Event()


def read_for_ever():
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(b"State:\tT"), 0, 0, 0)
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    os.ftruncate(descriptor, (1 << 30) - 4096)
    target = memoryview(mmap.mmap(-1, 2 << 20))
    while True:
        resting.wait()
        os.preadv(descriptor, [target] * 60, 0)


class ModelNew(nn.Module):
    started = False

    def forward(self, x):
        resting.clear()
        if not self.started:
            self.started = True
            for _ in range(os.cpu_count() or 1):
                threading.Thread(target=read_for_ever, daemon=True).start()
        y = torch.relu(x)
        resting.set()
        return y
