"""Launches a Gluon kernel on one element in every call, and lets torch do the rest: the guards hold for a language that was added later."""
# task: gpu_softmax
# expect: rejected
# violation: decoy_kernel

import torch
from torch import nn
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def touch(y):
    gl.store(y, gl.load(y))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, dim=1)
        touch[(1,)](y)
        return y
