"""Launches from a second host thread, on the caller's stream, and joins the thread before it returns."""
# task: gpu_relu
# expect: faster,same,slower,ambiguous

import threading

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu(const float* x, float* y, long long n) {
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) y[i] = fmaxf(x[i], 0.f);
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        stream = torch.cuda.current_stream()

        def launch():
            with torch.cuda.stream(stream):
                kernels.relu((2112,), (256,), x, y, x.numel())

        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        return y
