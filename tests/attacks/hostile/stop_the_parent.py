"""Stops its parent and itself: nobody dies, nobody answers."""
# task: relu
# expect: timeout,runtime_error,rejected
# options: timeout=4

import os
import signal

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for pid in (os.getppid(), 1):
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                continue
        os.kill(os.getpid(), signal.SIGSTOP)
        return x
