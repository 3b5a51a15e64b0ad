"""A kernel that writes far outside its output.

Not a cheat but an accident: the device context is gone, and the next candidate must not notice.
"""
# task: gpu_relu
# expect: runtime_error

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i + (1ll << 40)] = x[i];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.relu((x.numel() // 256,), (256,), x, y, x.numel())
        return y
