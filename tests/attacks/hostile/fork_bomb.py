"""Doubles its processes nine times, each detached from the last.

(Bounded, and gone after 20 s, so that a machine whose sandbox is broken survives the test.)
"""
# task: relu
# expect: runtime_error,timeout,rejected
# options: timeout=5

import os
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(9):
            if os.fork() == 0:
                os.setsid()
        time.sleep(20)
        os._exit(1)
