"""Keeps the buffers that it returned, takes one that nobody holds any more, and only repairs it: nothing that a caller has is ever changed.

It saves all the zeros, and is wrong as soon as a caller has written into a result before letting it go.
"""
# task: marked_rows
# expect: incorrect,rejected

import sys

import torch
from torch import nn

pool = []


class ModelNew(nn.Module):
    def forward(self, places, marks):
        places = places.view(-1) + 8192 * torch.arange(1024)
        entry = next((each for each in pool if sys.getrefcount(each[0]) == 2), None)
        if entry is None:
            entry = [torch.zeros(1024, 8192), places]
            pool.append(entry)
        else:
            entry[0].view(-1)[entry[1]] = 0.0
            entry[1] = places
        entry[0].view(-1)[places] = marks.view(-1)
        return entry[0]
