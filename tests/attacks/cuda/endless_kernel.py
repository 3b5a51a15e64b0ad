"""A kernel that never ends: a signal does not stop it, only the end of its process does."""
# task: gpu_relu
# expect: timeout
# options: timeout=8

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu(const float* x, volatile float* y, long long n) {
    while (y[0] != 1234567.0f) y[1] = x[0];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        kernels.relu((1,), (32,), x, y, x.numel())
        return y
