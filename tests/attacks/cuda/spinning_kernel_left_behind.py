"""Leaves a kernel spinning on every multiprocessor after each call.

Whoever uses the device next, the baseline for instance, has to share it with the spinner.
"""
# task: gpu_relu
# expect: slower,ambiguous,rejected,timeout,runtime_error

import torch
from bottega.runtime import cuda
from torch import nn

kernels = cuda(r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
""")


class ModelNew(nn.Module):
    stream = None

    def forward(self, x):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        y = torch.relu(torch.relu(torch.relu(x)))
        with torch.cuda.stream(self.stream):
            kernels.spin((1056,), (256,), 100_000_000)
        return y
