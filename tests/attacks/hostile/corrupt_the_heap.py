"""Frees memory that it does not own; the process dies there or somewhere later."""
# task: relu
# expect: runtime_error,incorrect,rejected,timeout

import ctypes

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        libc = ctypes.CDLL(None)
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(x.data_ptr() + 16)
        libc.free(id(x))
        return x.clone()
