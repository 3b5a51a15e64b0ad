"""Compiles a complete, correct kernel and never calls it.

Scans of the text, and checks that something was compiled, are content; torch does the work.
"""
# task: softmax
# expect: rejected
# violation: decoy_kernel

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void softmax(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        float* out = y + row * columns;
        float largest = in[0], sum = 0;
        for (int64_t i = 1; i < columns; ++i) largest = std::fmax(largest, in[i]);
        for (int64_t i = 0; i < columns; ++i) sum += out[i] = std::exp(in[i] - largest);
        for (int64_t i = 0; i < columns; ++i) out[i] /= sum;
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
