"""RMS normalisation: both passes over a row in lanes, rows shared among the cores, the next row fetched ahead."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cmath>
#include <cstdint>

extern "C" void rms_norm(const float* __restrict__ x, const float* __restrict__ gain, float* __restrict__ y, int64_t rows, int64_t columns, float eps) {
  #pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * columns;
    __builtin_prefetch(x + (r + 1) * columns);
    float* out = y + r * columns;
    float squares = 0.f;
    #pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < columns; ++c) squares += in[c] * in[c];
    const float inverse = 1.f / std::sqrt(squares / columns + eps);
    #pragma omp simd
    for (int64_t c = 0; c < columns; ++c) out[c] = in[c] * inverse * gain[c];
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        library.rms_norm(x, self.gain, y, x.shape[0], x.shape[1], self.eps)
        return y
