"""Leaves two large products to the library and does the ReLU between them: too little to be sampled, and all that there is beside products."""
# task: wide_mlp
# expect: faster,same,slower,ambiguous

from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(float* y, int64_t n) {
    #pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] > 0 || y[i] != y[i] ? y[i] : 0.0f;
}
""")


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        hidden = self.up(x)
        library.relu(hidden, hidden.numel())
        return self.down(hidden)
