"""Sum and normalise in one pass; the sum is an output too."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
// variation 0
#include <cmath>
#include <cstdint>

extern "C" void residual_rms_norm(const float* x, const float* residual, const float* weight, float* y, float* sum,
                                  int64_t rows, int64_t width) {
  #pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t base = row * width;
    float squares = 0.f;
    #pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) {
      float v = x[base + i] + residual[base + i];
      sum[base + i] = v;
      squares += v * v;
    }
    const float factor = 1.f / std::sqrt(squares / width + 1e-5f);
    #pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[base + i] = sum[base + i] * factor * weight[i];
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        y, total = torch.empty_like(x), torch.empty_like(x)
        width = x.shape[-1]
        library.residual_rms_norm(x, residual, self.weight, y, total, x.numel() // width, width)
        return y, total
