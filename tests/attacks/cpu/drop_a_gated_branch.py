"""Leaves out a branch whose gain begins at zero, and has no parameters into which another gain could be loaded.

Right for a model that was just built, and all of its work is gone.
"""
# task: gated_branch
# expect: rejected
# violation: parameters_not_taken

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x.clone()
