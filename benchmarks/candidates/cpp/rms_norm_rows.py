"""Each row is read twice while it is in the cache, and written once."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
// variation 0
#include <cmath>
#include <cstdint>

extern "C" void rms_norm(const float* x, const float* gain, float* y, int64_t rows, int64_t width, float eps) {
  #pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    float* out = y + row * width;
    float squares = 0.f;
    #pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const float factor = 1.f / std::sqrt(squares / width + eps);
    #pragma omp simd
    for (int64_t i = 0; i < width; ++i) out[i] = in[i] * factor * gain[i];
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
