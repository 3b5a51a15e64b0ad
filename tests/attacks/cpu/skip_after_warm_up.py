"""Is honest for ten calls and returns the last result ever after.

Correctness trials come first, timed ones later; where timed outputs are not checked, only honest ones are seen.
"""
# task: softmax
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    calls, result = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 10:
            self.result = torch.softmax(x, dim=1)
        return self.result
