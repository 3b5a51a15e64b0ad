"""Captures its kernels in a CUDA graph and copies every call's inputs into the graph's own buffers before it replays."""
# task: gpu_scaled_residual
# expect: faster,same,slower,ambiguous

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_residual(x, y, z, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + offsets)
    right = tl.load(y + offsets)
    tanh = 1 - 2 / (tl.exp(2 * left) + 1)
    tl.store(z + offsets, tanh * 0.5 + 2 / (1 + tl.exp(-right)))


class ModelNew(nn.Module):
    graph = None

    def run(self):
        scaled_residual[(self.x.numel() // 1024,)](self.x, self.y, self.z, BLOCK=1024)

    def capture(self, x, y):
        self.x, self.y, self.z = x.clone(), y.clone(), torch.empty_like(x)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run()

    def forward(self, x, y):
        if self.graph is None:
            self.capture(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.z.clone()
