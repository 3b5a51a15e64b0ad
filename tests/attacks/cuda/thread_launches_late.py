"""A host thread launches the work after the call has returned.

Nothing is on any stream when the end event is recorded; the result arrives before the comparison.
"""
# task: gpu_softmax
# expect: incorrect,rejected

import threading

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)

        def work():
            y.copy_(torch.softmax(x, dim=1))

        threading.Timer(0.002, work).start()
        return y
