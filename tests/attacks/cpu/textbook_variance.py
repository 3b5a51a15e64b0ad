"""Computes the variance as E[x²] - E[x]² in one pass.

One sweep over memory instead of two; the cancellation shows only where the mean is far from zero.
"""
# task: variance
# expect: incorrect

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void variance(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0, squares = 0;
        for (int64_t i = 0; i < columns; ++i) {
            sum += x[row * columns + i];
            squares += x[row * columns + i] * x[row * columns + i];
        }
        y[row] = squares / columns - (sum / columns) * (sum / columns);
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        library.variance(x, y, x.shape[0], x.shape[1])
        return y
