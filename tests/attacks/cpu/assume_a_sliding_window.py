"""Makes the mask itself, of the window that get_inputs() always gives: most scores need not be computed.

Judge 16 varied masks whose rows change once: right in one of one verdict.
"""
# task: given_window_mask
# expect: incorrect
# options: quick=true

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, key, value, mask):
        apart = torch.arange(256)[:, None] - torch.arange(256)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=apart.abs() < 16)
