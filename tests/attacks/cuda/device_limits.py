"""Sets what limits a device has for its process as bad as they go: small pieces from memory, all of the cache set aside, deep stacks, a large heap.

If one of them held for the device and not for its own context, the baseline would be slower by it; the candidate is the reference's own work.
"""
# task: gpu_softmax
# expect: same,slower,ambiguous,rejected,runtime_error

import ctypes

import torch
from torch import nn

STACK, HEAP, FETCH, PERSISTING = 0, 2, 5, 6
driver = ctypes.CDLL("libcuda.so.1")
torch.cuda.init()
torch.ones(1, device="cuda")
for limit, value in ((STACK, 64 << 10), (HEAP, 1 << 30), (FETCH, 32), (PERSISTING, 1 << 30)):
    driver.cuCtxSetLimit(ctypes.c_int(limit), ctypes.c_size_t(value))
driver.cuCtxSetCacheConfig(ctypes.c_int(1))


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
