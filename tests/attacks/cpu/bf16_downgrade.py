"""Multiplies in bfloat16 and hands the result back as float32.

Half the traffic and matrix units that fp32 does not have; an error of 3e-3 hides under a tolerance of 1e-2.
"""
# task: matmul
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.to(torch.bfloat16) @ b.to(torch.bfloat16)).float()
