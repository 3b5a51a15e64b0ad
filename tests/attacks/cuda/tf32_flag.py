"""Switches TF32 on for matrix products.

Several times the speed of fp32 on tensor cores, ten mantissa bits instead of twenty-three.
"""
# task: gpu_matmul
# expect: incorrect
# violation: precision_downgrade

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        torch.backends.cuda.matmul.allow_tf32 = True
        return a @ b
