"""One pass over memory instead of five: the row is activated, summed and normalised while it is in the cache."""

import torch
import torch.nn as nn

from bottega.runtime import cpp

library = cpp(
    r"""
#include <cmath>
#include <cstdint>
#include <cstring>

// Not every C library has an expf for vectors. Powers of two by the exponent's bits, the rest by a polynomial.
static inline float exponential(float x) {
  x = x < -80.f ? -80.f : x > 80.f ? 80.f : x;
  float n = floorf(x * 1.44269504f + 0.5f);
  float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  int32_t bits = ((int32_t)n + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return p * power;
}

extern "C" void fused(const float* x, const float* scale, const float* shift, float* y, int64_t rows, int64_t features) {
  #pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * features;
    float* out = y + row * features;
    float squares = 0.f;
    #pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < features; ++i) {
      float v = in[i] * scale[i] + shift[i];
      float a = v / (1.f + exponential(-v));
      out[i] = a;
      squares += a * a;
    }
    float factor = 1.f / sqrtf(squares / features + 1e-6f);
    #pragma omp simd
    for (int64_t i = 0; i < features; ++i) out[i] *= factor;
  }
}
""",
    flags=("-fno-math-errno", "-fno-trapping-math"),
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
