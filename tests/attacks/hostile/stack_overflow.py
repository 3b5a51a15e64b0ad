"""Recurses in native code until the stack is gone."""
# task: relu
# expect: runtime_error

from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
static int64_t deeper(volatile char* above, int64_t depth) {
    volatile char frame[4096];
    frame[0] = above[0];
    return depth + deeper(frame, depth + 1) + frame[0];
}
extern "C" void dig() { volatile char first = 0; deeper(&first, 0); }
""")


class ModelNew(nn.Module):
    def forward(self, x):
        library.dig()
        return x
