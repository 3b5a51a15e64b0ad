"""A running total over time with the channels in lanes, sequences shared among the cores."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

extern "C" void running_total(const float* __restrict__ x, float* __restrict__ y, int64_t batch, int64_t steps, int64_t channels) {
  #pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < batch; ++b) {
    const float* in = x + b * steps * channels;
    float* out = y + b * steps * channels;
    for (int64_t c = 0; c < channels; ++c) out[c] = in[c];
    for (int64_t t = 1; t < steps; ++t)
      for (int64_t c = 0; c < channels; ++c) out[t * channels + c] = out[t * channels - channels + c] + in[t * channels + c];
  }
}
""")


class ModelNew(nn.Module):
    def forward(self, increments):
        batch, steps, channels = increments.shape
        y = torch.empty_like(increments)
        library.running_total(increments, y, batch, steps, channels)
        return y
