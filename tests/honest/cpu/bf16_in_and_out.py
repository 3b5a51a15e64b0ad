"""bfloat16 in and out, float32 in between, rounded to nearest even by hand."""
# task: bf16_gelu
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
extern "C" void gelu_bf16(const uint16_t* x, uint16_t* y, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits = std::bit_cast<uint32_t>(gelu(std::bit_cast<float>(uint32_t(x[i]) << 16)));
        y[i] = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.gelu_bf16(x, y, x.numel())
        return y
