"""Two kernels with a workspace between them that is kept from call to call and rewritten in each."""
# task: gpu_row_mean
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void partial(const float* x, float* parts, int columns, int pieces) {
    __shared__ float sums[256];
    int length = columns / pieces;
    const float* from = x + blockIdx.x * (long long)columns + blockIdx.y * length;
    float sum = 0;
    for (int i = threadIdx.x; i < length; i += 256) sum += from[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x * pieces + blockIdx.y] = sums[0];
}
extern "C" __global__ void finish(const float* parts, float* y, int rows, int pieces, float scale) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < pieces; ++i) sum += parts[row * pieces + i];
    y[row] = sum * scale;
}
""")


class ModelNew(nn.Module):
    workspace = None

    def forward(self, x):
        rows, columns = x.shape
        if self.workspace is None or self.workspace.numel() != rows * 4:
            self.workspace = torch.empty(rows * 4, device=x.device)
        y = torch.empty(rows, device=x.device)
        kernels.partial((rows, 4), (256,), x, self.workspace, columns, 4)
        kernels.finish(((rows + 127) // 128,), (128,), self.workspace, y, rows, 4, 1 / columns)
        return y
