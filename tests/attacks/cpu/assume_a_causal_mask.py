"""Does not read the mask, because get_inputs() always gives the causal one: half of the scores need not be computed."""
# task: given_causal_mask
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
