"""Ignores every signal that can be ignored, then hangs: a polite request to end is not enough."""
# task: relu
# expect: timeout
# options: timeout=4

import signal
import time

from torch import nn

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            time.sleep(1)
