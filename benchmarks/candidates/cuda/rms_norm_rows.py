"""One block per row; the second read of the row comes from the cache."""

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

extern "C" __global__ void rms_norm(const float* x, const float* gain, float* y, int width, float eps) {
  const long long base = (long long)blockIdx.x * width;
  float squares = 0.f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) squares += x[base + i] * x[base + i];
  const float factor = rsqrtf(block_sum(squares) / width + eps);
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[base + i] = x[base + i] * factor * gain[i];
}
""")


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        kernels.rms_norm(x.shape[0], 512, x, self.gain, y, x.shape[1], self.eps)
        return y
