"""Names its parameters otherwise than the reference; built from the same seed it has the same values."""
# task: linear_gelu
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <bit>
#include <cmath>
#include <cstdint>
static inline float exponential(float value) {  // 2^n * e^r with a polynomial for e^r: it vectorises, libm's does not
    value = value > -87.0f ? value : -87.0f;
    float n = std::floor(value * 1.44269504f + 0.5f);
    float r = value - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * std::bit_cast<float>((int32_t(n) + 127) << 23);
}
static inline float gelu(float x) {  // erf by Abramowitz and Stegun 7.1.26: at most 1.5e-7 off
    float z = std::fabs(x) * 0.70710678f, t = 1 / (1 + 0.3275911f * z);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    float tail = p * exponential(-z * z);
    return 0.5f * x * (x < 0 ? tail : 2 - tail);
}
extern "C" void gelu_in_place(float* x, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) x[i] = gelu(x[i]);
}
""")


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.projection = nn.Linear(width_in, width_out)

    def forward(self, x):
        y = torch.addmm(self.projection.bias, x, self.projection.weight.t())
        library.gelu_in_place(y, y.numel())
        return y
