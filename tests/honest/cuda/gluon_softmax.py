"""A row reduction in Gluon: one program per row, the row in registers, two reductions over one layout."""
# task: gpu_softmax
# expect: faster,same,slower,ambiguous

import torch
import triton
from torch import nn
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def softmax_rows(x, y, columns, BLOCK: gl.constexpr, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [num_warps], [0])
    here = gl.arange(0, BLOCK, layout=layout)
    inside = here < columns
    offsets = gl.program_id(0) * columns + here
    values = gl.load(x + offsets, mask=inside, other=-float("inf"))
    values = gl.exp(values - gl.max(values, axis=0))
    gl.store(y + offsets, values / gl.sum(values, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        softmax_rows[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return y
