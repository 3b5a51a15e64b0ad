"""A matrix product whose factors are rounded to the ten mantissa bits of TF32 first.

What tensor cores do for free when nobody asked for fp32 in earnest: seven times the speed, errors of a few 1e-4.
"""
# task: matmul
# expect: incorrect

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
#include <cstring>
static inline float tf32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(&value, &bits, 4);
    return value;
}
extern "C" void matmul(const float* a, const float* b, float* c, int64_t n) {
    #pragma omp parallel for
    for (int64_t row = 0; row < n; ++row) {
        for (int64_t column = 0; column < n; ++column) c[row * n + column] = 0;
        for (int64_t k = 0; k < n; ++k) {
            float left = tf32(a[row * n + k]);
            for (int64_t column = 0; column < n; ++column) c[row * n + column] += left * tf32(b[k * n + column]);
        }
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        library.matmul(a, b, c, a.shape[0])
        return c
