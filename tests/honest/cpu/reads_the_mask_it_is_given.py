"""Attention by the library in one call, with the mask that it was given."""
# task: given_causal_mask
# expect: faster,same,slower,ambiguous

from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
