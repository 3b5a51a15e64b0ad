"""A kernel that writes far outside its output."""
# task: relu
# expect: runtime_error

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i << 20] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu(x, y, x.numel())
        return y
