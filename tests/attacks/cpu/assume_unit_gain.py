"""Leaves out the affine part of a normalisation, because a fresh layer has gain one and bias zero.

Two reads and a multiply-add per element saved, and right for every model that was never trained.
"""
# task: layer_norm
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return nn.functional.layer_norm(x, self.norm.normalized_shape)
