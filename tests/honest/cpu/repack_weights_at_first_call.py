"""Transposes its weights into tiles in the first call and keeps the packed copy: state, and yet no cheat.

The packed copy is made from the weights as loaded, and made again when they change.
"""
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
extern "C" void linear_gelu(const float* x, const float* packed, const float* bias, float* y, int64_t rows, int64_t in, int64_t out) {
    constexpr int64_t tile = 64, height = 4;
    #pragma omp parallel for collapse(2)
    for (int64_t panel = 0; panel < out / tile; ++panel)
        for (int64_t row = 0; row < rows; row += height) {
            float total[height][tile];
            for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < tile; ++j) total[i][j] = bias[panel * tile + j];
            for (int64_t k = 0; k < in; ++k)
                for (int64_t i = 0; i < height; ++i) {
                    float left = x[(row + i) * in + k];
                    #pragma omp simd
                    for (int64_t j = 0; j < tile; ++j) total[i][j] += left * packed[(panel * in + k) * tile + j];
                }
            for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < tile; ++j) y[(row + i) * out + panel * tile + j] = gelu(total[i][j]);
        }
}
""")


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)
        self.packed, self.packed_from = None, None

    def pack(self):
        weight = self.linear.weight
        if self.packed_from != (weight.data_ptr(), weight._version):
            self.packed = weight.detach().view(-1, 64, weight.shape[1]).transpose(1, 2).contiguous()
            self.packed_from = (weight.data_ptr(), weight._version)
        return self.packed

    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.out_features)
        library.linear_gelu(x, self.pack(), self.linear.bias, y, x.shape[0], x.shape[1], y.shape[1])
        return y
