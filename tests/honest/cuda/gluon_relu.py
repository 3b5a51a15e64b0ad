"""An elementwise Gluon kernel: the layout gives each thread four neighbouring elements, so that loads are wide."""
# task: gpu_relu
# expect: faster,same,slower,ambiguous

import torch
import triton
from torch import nn
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def relu_blocks(x, y, count, BLOCK: gl.constexpr, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [num_warps], [0])
    here = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    inside = here < count
    values = gl.load(x + here, mask=inside, other=0.0)
    gl.store(y + here, gl.where(values < 0.0, 0.0, values), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        count = x.numel()
        relu_blocks[(triton.cdiv(count, 1024),)](x, y, count, BLOCK=1024, num_warps=4)
        return y
