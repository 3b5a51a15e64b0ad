"""Overwrites and returns its input, as the reference itself does."""
# task: relu_in_place
# expect: faster,same,slower,ambiguous

from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu_in_place(float* x, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        library.relu_in_place(x, x.numel())
        return x
