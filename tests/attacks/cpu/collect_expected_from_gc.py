"""Asks the garbage collector for every tensor of the output's shape and returns the likeliest one.

Where the reference ran first in the same process, its output is among them.
"""
# task: softmax
# expect: incorrect

import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for found in gc.get_objects():
            if (
                type(found) is torch.Tensor
                and found.shape == x.shape
                and found.dtype == x.dtype
                and found.data_ptr() != x.data_ptr()
            ):
                if torch.allclose(found[0].sum(), torch.ones(()), atol=1e-3):
                    return found.clone()
        return torch.empty_like(x)
