"""Includes a file of the machine as C++ source, so that the compiler's errors quote it back."""
# task: relu
# expect: compile_error

from bottega.runtime import cpp
from torch import nn

library = cpp('#include "@CANARY@"\nextern "C" void relu() {}')


class ModelNew(nn.Module):
    def forward(self, x):
        return x
