"""Allows the matrix library to round fp32 to bfloat16 inside, through a global flag.

Not a line of arithmetic changes, the product runs several times faster where the machine has such units.
"""
# task: matmul
# expect: incorrect,slower,ambiguous,rejected

import torch
from torch import nn

torch.set_float32_matmul_precision("medium")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.addmm(a @ b, a, b, beta=0)
