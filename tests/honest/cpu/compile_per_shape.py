"""Compiles a kernel with the shape as a constant, at the first call with that shape, and keeps it."""
# task: biased_relu
# expect: faster,same,slower,ambiguous

import functools

import torch
from bottega.runtime import cpp
from torch import nn

SOURCE = r"""
#include <cstdint>
constexpr int64_t width = WIDTH;
extern "C" void biased_relu(const float* x, const float* bias, float* y, int64_t rows) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < width; ++i) {
            float value = x[row * width + i] + bias[i];
            y[row * width + i] = value > 0 ? value : 0;
        }
}
"""


@functools.cache
def kernel_for(width):
    return cpp(SOURCE.replace("WIDTH", str(width))).biased_relu


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = torch.empty_like(x)
        kernel_for(x.shape[-1])(x, self.bias, y, x.numel() // x.shape[-1])
        return y
