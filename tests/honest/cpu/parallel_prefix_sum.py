"""Running sums in blocks with double carries: rows in parallel, another rounding than the reference's."""
# task: prefix_sum
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void prefix_sum(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        double carry = 0;
        for (int64_t i = 0; i < columns; ++i) {
            carry += x[row * columns + i];
            y[row * columns + i] = float(carry);
        }
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.prefix_sum(x, y, x.shape[0], x.shape[1])
        return y
