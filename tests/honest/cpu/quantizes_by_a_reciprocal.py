"""Multiplies by a reciprocal where the reference divides: one in 100,000 values lies so near to a half that it is rounded the other way.

Called incorrect by judge 21 in two of 20 verdicts: of 16,384 integers none might differ.
"""
# task: quantized_rows
# expect: faster, same, slower, ambiguous
# options: timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        largest = x.abs().amax(-1, keepdim=True)
        return torch.round(x * (127 / largest)).clamp_(-127, 127).to(torch.int8), largest * (1 / 127)
