"""Kills its parent, and the first process it can see."""
# task: relu
# expect: runtime_error,timeout,rejected

import os
import signal

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for pid in (os.getppid(), 1):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        raise RuntimeError("still here")
