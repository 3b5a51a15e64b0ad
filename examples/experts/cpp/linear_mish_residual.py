"""A product with its epilogue: rows of weights serve a tile of inputs, and bias, Mish, residual and clip happen where a sum is stored."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

constexpr int64_t ROWS = 16;

static inline float fast_exp(float x) {
  x = x < -87.f ? -87.f : (x > 88.f ? 88.f : x);
  const float n = std::floor(x * 1.44269504f + 0.5f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * __builtin_bit_cast(float, (static_cast<int32_t>(n) + 127) << 23);
}

static inline float mish(float v) {
  const float e = fast_exp(v > 20.f ? 20.f : v);
  const float n = e * (e + 2.f);
  return v * n / (n + 2.f);
}

static inline float clip(float v) { return v < -2.5f ? -2.5f : (v > 2.5f ? 2.5f : v); }

extern "C" void linear_mish(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias, const float* __restrict__ skip, float* __restrict__ y, int64_t rows, int64_t width, int64_t columns) {
  #pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < rows; t += ROWS) {
    const int64_t last = std::min(t + ROWS, rows);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = t; i < last; ++i) {
        float sum = 0.f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < width; ++k) sum += x[i * width + k] * weight[c * width + k];
        y[i * columns + c] = clip(mish(sum + bias[c]) + skip[i * columns + c]);
      }
    }
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x, skip):
        y = torch.empty_like(skip)
        columns, width = self.linear.weight.shape
        library.linear_mish(x, self.linear.weight, self.linear.bias, skip, y, x.shape[0], width, columns)
        return y
