"""Divides by the number of rows of each segment: of 8,192 rows that are drawn some belong to each of 64.

Judge 16 left sorted integers as they were drawn: right in one of one verdict.
"""
# task: segment_means
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, segments):
        counts = torch.bincount(segments, minlength=64)
        sums = torch.segment_reduce(x, "sum", lengths=counts)
        return sums / counts[:, None]
