"""Sum and normalise in one kernel; the sum is an output too and is read back from the cache."""

import torch
from torch import nn

from bottega.runtime import cuda

kernels = cuda(r"""
// variation 0
__device__ float block_sum(float value) {
  __shared__ float parts[32];
  for (int offset = 16; offset; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < blockDim.x / 32; ++i) total += parts[i];
  return total;
}

extern "C" __global__ void residual_rms_norm(const float* x, const float* residual, const float* weight, float* y, float* sum,
                                             int width) {
  const long long base = (long long)blockIdx.x * width;
  float squares = 0.f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    float v = x[base + i] + residual[base + i];
    sum[base + i] = v;
    squares += v * v;
  }
  const float factor = rsqrtf(block_sum(squares) / width + 1e-5f);
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[base + i] = sum[base + i] * factor * weight[i];
}
""")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        y, total = torch.empty_like(x), torch.empty_like(x)
        width = x.shape[-1]
        kernels.residual_rms_norm(x.numel() // width, 512, x, residual, self.weight, y, total, width)
        return y, total
