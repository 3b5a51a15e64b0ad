"""A kernel on a side stream waits for ten milliseconds before it writes the result.

The event span is empty, and a synchronisation that covers only the current stream returns too early.
"""
# task: gpu_relu
# expect: incorrect,rejected,slower,ambiguous

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu_late(const float* x, float* y, long long n, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) y[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    stream = None

    def forward(self, x):
        y = torch.empty_like(x)
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            kernels.relu_late((264,), (256,), x, y, x.numel(), 15_000_000)
        return y
