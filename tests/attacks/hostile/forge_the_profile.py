"""Answers the profile stage with what looks like a number and is none. Whoever turns it into one breaks: no verdict for a kernel that was judged."""
# task: relu
# expect: faster,same,slower,ambiguous
# options: profile=true quick=true

import bottega.judge.worker as worker
import torch
from bottega.runtime import cpp
from torch import nn

worker.vector_instructions = lambda: {"²": 1, "9" * 5000: 1, "256": 10**12, "128": "many", "-1": 7, "": 2}

library = cpp(r"""
#include <cstdint>
extern "C" void relu_with_a_profile(const float* x, float* y, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.relu_with_a_profile(x, y, x.numel())
        return y
