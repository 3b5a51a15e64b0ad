"""A gated recurrence without any optimisation."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cmath>
#include <cstdint>

extern "C" void gated_scan(const float* x, const float* decay, const float* gate, float* y, int64_t batch, int64_t steps, int64_t channels) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < channels; ++c) {
      float state = 0.f;
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t i = (b * steps + t) * channels + c;
        const float a = 1.f / (1.f + std::exp(-decay[i]));
        state = a * state + (1.f - a) * x[i];
        y[i] = state * std::tanh(gate[i]);
      }
    }
  }
}
""")


class ModelNew(nn.Module):
    def forward(self, x, decay, gate):
        y = torch.empty_like(x)
        library.gated_scan(x, decay, gate, y, *x.shape)
        return y
