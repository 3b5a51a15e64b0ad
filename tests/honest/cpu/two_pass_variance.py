"""Variance in two passes over each row while it is still in the cache."""
# task: variance
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void variance(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        double sum = 0, squares = 0;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < columns; ++i) sum += in[i];
        double mean = sum / columns;
        #pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < columns; ++i) squares += (in[i] - mean) * (in[i] - mean);
        y[row] = float(squares / columns);
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        library.variance(x, y, x.shape[0], x.shape[1])
        return y
