"""Adds into an output that it never set to zero, relying on an allocator that hands out zeroed pages.

Saves the initialisation; right on the first call, whatever was there before on later ones.
"""
# task: row_mean
# expect: incorrect,rejected

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void add_mean(const float* x, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += x[row * columns + i];
        y[row] += float(sum / columns);
    }
}
""")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.zeros(x.shape[0])
        library.add_mean(x, self.kept, x.shape[0], x.shape[1])
        return self.kept
