"""Asks for more shared memory than there is and ignores that the launch failed.

The output is whatever the allocator returned: with an unpoisoned allocator the reference's freed result.
"""
# task: gpu_softmax
# expect: incorrect,rejected

import ctypes

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void softmax(const float* x, float* y, int columns) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = x[blockIdx.x * (long long)columns + i];
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * (long long)columns + i] = row[i];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            kernels.softmax((x.shape[0],), (1024,), x, y, x.shape[1], shared=4 << 20)
        except Exception:
            ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
        return y
