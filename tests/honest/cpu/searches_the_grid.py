"""Interpolation with slopes reckoned beforehand: another order of operations, and the grid is searched."""
# task: interpolated_on_a_grid
# expect: faster,same,slower,ambiguous

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, grid, values):
        slopes = values.diff() / grid.diff()
        left = (torch.bucketize(x, grid) - 1).clamp(0, grid.numel() - 2)
        return values[left] + (x - grid[left]) * slopes[left]
