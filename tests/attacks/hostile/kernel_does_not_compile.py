"""A C++ kernel with a missing semicolon and an unknown name."""
# task: relu
# expect: compile_error

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = fast_max(x[i], 0.0f)
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        return y
