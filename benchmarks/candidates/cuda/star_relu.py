"""StarReLU in one pass over memory."""

import torch
from torch import nn

from bottega.runtime import cuda

kernels = cuda(r"""
// variation 0
extern "C" __global__ void star_relu(const float* x, const float* scale, const float* shift, float* y, long long count) {
  const float a = *scale, b = *shift;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    float v = fmaxf(x[i], 0.f);
    y[i] = a * (v * v) + b;
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.8944))
        self.shift = nn.Parameter(torch.tensor(-0.4472))

    def forward(self, x):
        y = torch.empty_like(x)
        kernels.star_relu(-(-x.numel() // 1024), 256, x, self.scale, self.shift, y, x.numel())
        return y
