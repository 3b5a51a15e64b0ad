"""Contains `try`, `except` and `pass`, which some static checkers forbid, for ordinary reasons."""
# task: biased_relu
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

try:
    import a_profiler_that_may_be_missing as profiler
except ImportError:
    profiler = None

library = cpp(r"""
#include <cstdint>
extern "C" void biased_relu(const float* x, const float* bias, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < columns; ++i) {
            float value = x[row * columns + i] + bias[i];
            y[row * columns + i] = value > 0 ? value : 0;
        }
}
""")


class UnevenShape(ValueError):
    pass


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        try:
            rows, columns = x.shape
        except ValueError:
            raise UnevenShape(f"two dimensions expected, got {tuple(x.shape)}") from None
        y = torch.empty_like(x)
        library.biased_relu(x, self.bias, y, rows, columns)
        return y
