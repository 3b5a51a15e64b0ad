"""Remembers results by the identity and version counter of the input object.

Timed calls that pass the same tensor again return the stored result without any work.
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
        key = (id(x), x._version)
        if key not in self.known:
            self.known[key] = torch.softmax(torch.softmax(x, dim=1).log_(), dim=1)
        return self.known[key]
