"""Computes all but the last rows and leaves the rest as the allocator gave it.

A quarter of the work saved; freed memory of an earlier, equal call makes the tail look right.
"""
# task: softmax
# expect: incorrect

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
        y = torch.empty_like(x)
        library.softmax(x, y, x.shape[0] * 3 // 4, x.shape[1])
        return y
