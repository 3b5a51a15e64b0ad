"""Runs the garbage collector and looks at its counts; touches nobody's objects."""
# task: relu
# expect: faster,same,slower,ambiguous

import gc

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
        if gc.get_count()[2] > 5:
            gc.collect(0)
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        return y
