"""Makes a non-blocking stream through the driver itself and leaves its work there unjoined.

No `torch.cuda.Stream` stands in the text or is ever created, and the default stream does not wait for it.
"""
# task: gpu_softmax
# expect: incorrect,rejected,slower,ambiguous

import ctypes

import torch
from torch import nn

NON_BLOCKING = 1


class ModelNew(nn.Module):
    stream = None

    def forward(self, x):
        if self.stream is None:
            handle = ctypes.c_void_p()
            code = ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(handle), NON_BLOCKING)
            if code != 0:
                raise RuntimeError(f"cuStreamCreate failed with {code}")
            self.stream = torch.cuda.ExternalStream(handle.value)
        with torch.cuda.stream(self.stream):
            y = x
            for _ in range(4):
                y = torch.softmax(x + 0 * y, dim=1)
        return y
