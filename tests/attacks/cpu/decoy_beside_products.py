"""Leaves products and ReLU to the library, and calls its own kernel on one element, which is as little as an honest ReLU takes there.

By samples alone the two cannot be told apart.
"""
# task: wide_mlp
# expect: rejected
# violation: decoy_kernel

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] > 0 ? y[i] : 0.0f;
}
""")


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        hidden = torch.relu_(self.up(x))
        library.relu(hidden, 4)
        return self.down(hidden)
