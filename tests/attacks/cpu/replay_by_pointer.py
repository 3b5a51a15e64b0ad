"""Remembers results by the address of the input's memory.

A harness that refills one input buffer, or times one set of inputs, gets the first answer for ever.
"""
# task: softmax
# expect: incorrect,rejected,slower,ambiguous

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), x.shape, x.stride())
        if key not in self.known:
            self.known[key] = torch.softmax(torch.softmax(x, dim=1).log_(), dim=1)
        return self.known[key]
