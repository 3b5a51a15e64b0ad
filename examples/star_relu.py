"""StarReLU in one pass over memory."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

extern "C" void star_relu(const float* x, const float* scale, const float* shift, float* y, int64_t count) {
  const float a = *scale, b = *shift;
  #pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    float v = x[i] > 0.f ? x[i] : 0.f;
    y[i] = a * (v * v) + b;
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.8944))
        self.shift = nn.Parameter(torch.tensor(-0.4472))

    def forward(self, x):
        y = torch.empty_like(x)
        library.star_relu(x, self.scale, self.shift, y, x.numel())
        return y
