"""Prints a line in every call, braces and numbers included, as people do while they debug."""
# task: relu
# expect: faster,same,slower,ambiguous

import sys

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(const float* x, float* y, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        print({"shape": tuple(x.shape), "done": True})
        print("relu was called", file=sys.stderr)
        return y
