"""Row sums in single precision with Kahan-Neumaier compensation, where the reference accumulates in double."""
# task: exact_sum
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void row_sum(const float* x, float* y, int64_t rows, int64_t columns) {
    constexpr int64_t lanes = 32;
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        float sum[lanes] = {}, lost[lanes] = {};
        for (int64_t start = 0; start < columns; start += lanes)
            #pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane) {
                float value = x[row * columns + start + lane];
                float next = sum[lane] + value;
                float rounded = next - sum[lane];  // Knuth's two-sum: no branch on which of the two is larger
                lost[lane] += (sum[lane] - (next - rounded)) + (value - rounded);
                sum[lane] = next;
            }
        double total = 0;
        for (int64_t lane = 0; lane < lanes; ++lane) total += double(sum[lane]) + double(lost[lane]);
        y[row] = float(total);
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        library.row_sum(x, y, x.shape[0], x.shape[1])
        return y
