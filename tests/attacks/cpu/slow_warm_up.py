"""Sleeps through its first calls, so that a harness that scales its samples by time takes only a few.

With few samples left, one forged or lucky call decides; here the later calls repeat an old result.
"""
# task: softmax
# expect: incorrect,rejected

import time

import torch
from torch import nn


class ModelNew(nn.Module):
    calls, result = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 3:
            time.sleep(0.25)
            self.result = torch.softmax(x, dim=1)
        return self.result
