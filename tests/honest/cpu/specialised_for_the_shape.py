"""Has a compiled-in fast path for the task's own width and a general path for every other."""
# task: row_mean
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
template <int64_t width> static float sum_of(const float* x, int64_t columns) {
    int64_t count = width ? width : columns;
    float lanes[64] = {};
    int64_t i = 0;
    for (; i + 64 <= count; i += 64)
        for (int64_t lane = 0; lane < 64; ++lane) lanes[lane] += x[i + lane];
    double total = 0;
    for (float lane : lanes) total += lane;
    for (; i < count; ++i) total += x[i];
    return float(total / count);
}
extern "C" void row_mean(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row)
        y[row] = columns == 8192 ? sum_of<8192>(x + row * 8192, 8192) : sum_of<0>(x + row * columns, columns);
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[:-1])
        library.row_mean(x, y, y.numel(), x.shape[-1])
        return y
