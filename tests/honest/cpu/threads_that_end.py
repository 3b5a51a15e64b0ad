"""Starts Python threads in every call and joins them before it returns. The kernel runs without the interpreter's lock."""
# task: relu
# expect: faster,same,slower,ambiguous

import os
import threading

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void relu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        parts = list(zip(x.view(-1).chunk(os.cpu_count() or 1), y.view(-1).chunk(os.cpu_count() or 1)))
        threads = [threading.Thread(target=library.relu, args=(a, b, a.numel())) for a, b in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return y
