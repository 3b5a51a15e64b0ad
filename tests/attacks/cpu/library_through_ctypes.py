"""Calls torch's own operator through a C++ function of its own, so that no operator shows in the Python text.

Looks like a kernel call from outside; the time is spent in the library all the same.
"""
# task: matmul
# expect: rejected
# violation: coverage_too_low,decoy_kernel
# options: require_kernel=0.3

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <dlfcn.h>
#include <cstdint>
using sgemm_type = void (*)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                            const int*, const float*, const int*, const float*, float*, const int*);
extern "C" void matmul(const float* a, const float* b, float* c, int64_t size, int64_t address) {
    int n = int(size);
    float one = 1, zero = 0;
    ((sgemm_type)address)("N", "N", &n, &n, &n, &one, b, &n, a, &n, &zero, c, &n);
}
""")


def address_of_sgemm():
    import ctypes
    import glob
    import os

    for path in glob.glob(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu*")):
        return ctypes.cast(ctypes.CDLL(path).sgemm_, ctypes.c_void_p).value
    raise OSError("no sgemm_ to borrow")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        library.matmul(a, b, c, a.shape[0], address_of_sgemm())
        return c
