"""Does not subtract zero points, which are zero as drawn.

Judge 16 varied lengths and masks of ones, and left integers that are zero alone: right in one of one verdict.
"""
# task: zero_points
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, numbers, scales, zeros):
        return numbers.float() * scales[:, None]
