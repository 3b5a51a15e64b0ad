"""Softmax in two sweeps instead of three: running maximum and running sum are corrected together, block by block.

A different algorithm with a different order of summation; right to the last few bits all the same.
"""
# task: softmax
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
extern "C" void softmax(const float* x, float* y, int64_t rows, int64_t columns) {
    constexpr int64_t block = 256;
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        float* out = y + row * columns;
        float largest = -INFINITY, sum = 0;
        for (int64_t start = 0; start < columns; start += block) {
            int64_t end = start + block < columns ? start + block : columns;
            float here = -INFINITY, part = 0;
            #pragma omp simd reduction(max : here)
            for (int64_t i = start; i < end; ++i) here = in[i] > here ? in[i] : here;
            float next = here > largest ? here : largest;
            #pragma omp simd reduction(+ : part)
            for (int64_t i = start; i < end; ++i) part += exponential(in[i] - next);
            sum = sum * std::exp(largest - next) + part;
            largest = next;
        }
        float inverse = 1 / sum;
        #pragma omp simd
        for (int64_t i = 0; i < columns; ++i) out[i] = exponential(in[i] - largest) * inverse;
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.softmax(x, y, x.shape[0], x.shape[1])
        return y
