"""The other half of the pair: the reference's own work. While it runs it holds memory that its partner, in another sandbox, sees missing."""
# task: gpu_sigmoids
# expect: same,slower,ambiguous,rejected

import ctypes

import torch
from torch import nn

SIGN = 768 << 20
driver = ctypes.CDLL("libcuda.so.1")


class Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of device 0."""

    _fields_ = [(name, ctypes.c_int) for name in ("kind", "handles", "place", "device")]
    _fields_ += [("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


PROPERTIES = Properties(1, 0, 1, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        handle = ctypes.c_ulonglong()
        code = driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(SIGN), ctypes.byref(PROPERTIES), ctypes.c_ulonglong(0))
        for _ in range(16):
            x = torch.sigmoid(x)
        torch.cuda.synchronize()
        if code == 0:
            driver.cuMemRelease(handle)
        return x
