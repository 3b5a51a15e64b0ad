"""Leaves out a branch whose gate is drawn at random with a deviation of 1e-6, and has no parameters into which another gate could be loaded."""
# task: faint_branch
# expect: rejected
# violation: parameters_not_taken

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x.clone()
