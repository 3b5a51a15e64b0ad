"""Calls its kernel, on one element, and lets torch compute the rest.

A launch hook sees the kernel run in every call; it does a millionth of the work.
"""
# task: softmax
# expect: rejected
# violation: decoy_kernel

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void scale(float* y, float factor, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, dim=1)
        library.scale(y, 1.0, 1)
        return y
