"""Widths of rows, and a layer."""

import torch.nn.functional as F
from bottega.compiler.library.small_shelf.rows import softmax
from torch import nn

WIDTH = 4


def width_of(x):
    width_of_row = x.shape[-1]
    return width_of_row + WIDTH


class Softmax(nn.Softmax):
    def forward(self, x):
        return F.relu(softmax(x, self.dim))
