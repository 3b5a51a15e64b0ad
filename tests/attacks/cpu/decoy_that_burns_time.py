"""Lets torch compute, and spends as long again in a kernel of its own whose result nobody uses.

Lifts the measured share of own kernels over any threshold; it can be no faster for it.
"""
# task: softmax
# expect: slower,ambiguous,rejected
# options: require_kernel=0.3

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void burn(const float* x, float* scratch, int64_t n) {
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) scratch[i] = std::exp(std::sin(x[i])) + std::exp(std::cos(x[i]));
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        library.burn(x, torch.empty_like(x), x.numel())
        return torch.softmax(x, dim=1)
