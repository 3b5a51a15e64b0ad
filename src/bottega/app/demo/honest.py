"""One pass over memory instead of five: the row is activated, summed and normalised while it is in the cache."""

import torch
import torch.nn as nn

from bottega.runtime import cpp

library = cpp(
    r"""
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void fused(const float* x, const float* scale, const float* shift, float* y, int64_t rows, int64_t features) {
  #pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * features;
    float* out = y + row * features;
    float squares = 0.f;
    #pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < features; ++i) {
      float v = in[i] * scale[i] + shift[i];
      float a = v / (1.f + expf(-fmaxf(v, -80.f)));  // fast-math knows no infinity
      out[i] = a;
      squares += a * a;
    }
    float factor = 1.f / sqrtf(squares / features + 1e-6f);
    #pragma omp simd
    for (int64_t i = 0; i < features; ++i) out[i] *= factor;
  }
}
""",
    flags=("-ffast-math",),
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = torch.empty_like(x)
        library.fused(x, self.scale, self.shift, y, x.shape[0], x.shape[1])
        return y
