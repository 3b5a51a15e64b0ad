"""Group norm without any optimisation."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cmath>
#include <cstdint>

extern "C" void group_norm(const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels, int64_t length, int64_t groups, float eps) {
  for (int64_t g = 0; g < batch * groups; ++g) {
    const int64_t size = channels / groups * length;
    const float* in = x + g * size;
    float* out = y + g * size;
    double sum = 0.0;
    for (int64_t i = 0; i < size; ++i) sum += in[i];
    const double mean = sum / size;
    double squares = 0.0;
    for (int64_t i = 0; i < size; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const float deviation = std::sqrt(squares / size + eps);
    const float centre = mean;
    for (int64_t c = 0; c < channels / groups; ++c) {
      const int64_t channel = g % groups * (channels / groups) + c;
      for (int64_t i = 0; i < length; ++i) out[c * length + i] = (in[c * length + i] - centre) / deviation * weight[channel] + bias[channel];
    }
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, num_groups, num_channels):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups, num_channels)

    def forward(self, x):
        y = torch.empty_like(x)
        norm = self.norm
        library.group_norm(x, norm.weight, norm.bias, y, *x.shape, norm.num_groups, norm.eps)
        return y
