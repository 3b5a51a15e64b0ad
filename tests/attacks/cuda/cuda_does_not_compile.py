"""CUDA source with a missing semicolon."""
# task: gpu_relu
# expect: compile_error

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.relu((x.numel() // 256,), (256,), x, y, x.numel())
        return y
