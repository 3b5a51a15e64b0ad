"""Multiplies in float16 on tensor cores and hands the result back as float32.

Fifteen times the fp32 rate; on inputs from [0, 1) the error stays below one percent.
"""
# task: gpu_matmul
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.half() @ b.half()).float()
