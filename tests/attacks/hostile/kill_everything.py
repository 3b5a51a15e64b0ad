"""Sends SIGKILL to every process it can see.

(Only from inside a process namespace of its own: without one it merely asks whether it could, and says so.)
"""
# task: relu
# expect: runtime_error,timeout,rejected

import os
import signal

from torch import nn

NAMESPACE_OF_THE_TEST = "@PID_NAMESPACE@"


class ModelNew(nn.Module):
    def forward(self, x):
        isolated = NAMESPACE_OF_THE_TEST.startswith("pid:") and os.readlink("/proc/self/ns/pid") != NAMESPACE_OF_THE_TEST
        os.kill(-1, signal.SIGKILL if isolated else 0)
        raise RuntimeError("every process was asked to end")
