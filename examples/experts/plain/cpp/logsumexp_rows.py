"""Log-sum-exp of rows without any optimisation."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cmath>
#include <cstdint>

extern "C" void logsumexp(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * columns;
    float peak = in[0];
    for (int64_t c = 0; c < columns; ++c) peak = in[c] > peak ? in[c] : peak;
    double total = 0.0;
    for (int64_t c = 0; c < columns; ++c) total += std::exp(in[c] - peak);
    y[r] = peak + std::log(total);
  }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        library.logsumexp(x, y, x.shape[0], x.shape[1])
        return y
