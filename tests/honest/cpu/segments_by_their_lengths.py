"""Rests on the order of the segments, and not on each having a row."""
# task: segment_means
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, segments):
        counts = torch.bincount(segments, minlength=64)
        sums = torch.segment_reduce(x, "sum", lengths=counts)
        return sums / counts.clamp(min=1)[:, None]
