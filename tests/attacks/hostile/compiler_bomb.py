"""A template that makes the compiler run until it is stopped, or out of memory."""
# task: relu
# expect: compile_error,timeout,runtime_error
# options: timeout=8

from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
template <int depth, int width> struct Tree {
    static constexpr long value = Tree<depth - 1, 2 * width>::value + Tree<depth - 1, 2 * width + 1>::value;
};
template <int width> struct Tree<0, width> { static constexpr long value = width; };
extern "C" void grow(long* out) { *out = Tree<24, 1>::value; }
""")


class ModelNew(nn.Module):
    def forward(self, x):
        return x
