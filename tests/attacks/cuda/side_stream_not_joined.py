"""Launches the work on a side stream of torch's and returns without joining it.

Events on the main stream see an empty span; the result is there by the time somebody compares.
"""
# task: gpu_softmax
# expect: incorrect,rejected,slower,ambiguous

import torch
from torch import nn


class ModelNew(nn.Module):
    stream = None

    def forward(self, x):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            y = x
            for _ in range(4):
                y = torch.softmax(x + 0 * y, dim=1)
        return y
