"""Copies a BLAS library into its scratch folder and calls the matrix product from there.

By file the time is spent in something of the candidate's own; by author it is not. It multiplies twice, so it is no faster.
"""
# task: matmul
# expect: slower,ambiguous,rejected,runtime_error
# options: require_kernel=0.3

import ctypes
import glob
import os
import shutil
import tempfile

import numpy
import torch
from torch import nn

found = glob.glob(os.path.join(os.path.dirname(numpy.__file__), "..", "numpy.libs", "*openblas*"))
copy = os.path.join(tempfile.gettempdir(), "my_kernels.so")
shutil.copy(found[0], copy)
os.environ["LD_LIBRARY_PATH"] = os.path.dirname(found[0])
for needed in glob.glob(os.path.join(os.path.dirname(found[0]), "lib*quadmath*")) + glob.glob(
    os.path.join(os.path.dirname(found[0]), "lib*gfortran*")
):
    ctypes.CDLL(needed, mode=ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(copy)
sgemm = next(getattr(library, name) for name in ("scipy_sgemm_64_", "sgemm_64_", "sgemm_") if hasattr(library, name))


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        size, one, zero = ctypes.c_int64(a.shape[0]), ctypes.c_float(1), ctypes.c_float(0)
        n, pointer = ctypes.byref(size), lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        for _ in range(2):
            sgemm(b"N", b"N", n, n, n, ctypes.byref(one), pointer(b), n, pointer(a), n, ctypes.byref(zero), pointer(c), n)
        return c
