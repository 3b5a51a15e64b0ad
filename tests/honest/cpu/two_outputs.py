"""Two outputs from one sweep, one of them of integers."""
# task: row_max
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void row_max(const float* x, float* values, int64_t* indices, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        float largest = in[0];
        #pragma omp simd reduction(max : largest)
        for (int64_t i = 0; i < columns; ++i) largest = in[i] > largest ? in[i] : largest;
        int64_t where = 0;
        while (in[where] != largest) ++where;
        values[row] = largest;
        indices[row] = where;
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.empty(x.shape[0])
        indices = torch.empty(x.shape[0], dtype=torch.int64)
        library.row_max(x, values, indices, x.shape[0], x.shape[1])
        return values, indices
