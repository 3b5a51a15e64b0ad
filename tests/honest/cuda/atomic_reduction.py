"""Adds partial sums with atomics: the order, and the last bits, differ from call to call."""
# task: gpu_row_mean
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void row_mean(const float4* x, float* y, int quads, int pieces, float scale) {
    int length = quads / pieces;
    const float4* from = x + blockIdx.x * (long long)quads + blockIdx.y * length;
    float sum = 0;
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        float4 v = from[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(y + blockIdx.x, sum * scale);
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros(rows, device=x.device)
        kernels.row_mean((rows, 4), (256,), x, y, columns // 4, 4, 1 / columns)
        return y
