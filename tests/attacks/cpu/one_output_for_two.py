"""Returns one tensor in the place of two that are alike. The reference makes a copy, since a caller may change either of them.

Every value is right, and the copy is left out.
"""
# task: twin_outputs
# expect: rejected
# violation: outputs_share_memory

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        smooth = torch.sigmoid(x)
        return smooth, smooth
