"""The plainest CUDA kernel, through NVRTC: four floats at a time."""
# task: gpu_relu
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void relu(const float4* x, float4* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    y[i] = make_float4(fmaxf(v.x, 0.f), fmaxf(v.y, 0.f), fmaxf(v.z, 0.f), fmaxf(v.w, 0.f));
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        quads = x.numel() // 4
        kernels.relu(((quads + 255) // 256,), (256,), x, y, quads)
        return y
