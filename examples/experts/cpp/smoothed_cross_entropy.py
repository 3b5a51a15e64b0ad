"""Label-smoothed cross-entropy: the maximum first, then both sums of a row in one pass with an exponential in lanes."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cmath>
#include <cstdint>

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

extern "C" void losses(const float* __restrict__ logits, const int64_t* __restrict__ labels, float* __restrict__ y, int64_t rows, int64_t columns, float smoothing) {
  #pragma omp parallel for schedule(static) if(rows * columns > 20000)
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = logits + r * columns;
    float peak = in[0];
    #pragma omp simd reduction(max : peak)
    for (int64_t c = 0; c < columns; ++c) peak = in[c] > peak ? in[c] : peak;
    float total = 0.f;
    float plain = 0.f;
    #pragma omp simd reduction(+ : total, plain)
    for (int64_t c = 0; c < columns; ++c) {
      total += fast_exp(in[c] - peak);
      plain += in[c] - peak;
    }
    const float spread = std::log(total);
    const float picked = in[labels[r]] - peak - spread;
    y[r] = -(1.f - smoothing) * picked - smoothing * (plain / columns - spread);
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, labels):
        y = torch.empty(logits.shape[0])
        library.losses(logits, labels, y, logits.shape[0], logits.shape[1], self.smoothing)
        return y
