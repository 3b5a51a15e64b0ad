"""Attention as two products with probabilities in bf16 between them."""
# task: bf16_attention_block
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128)
        self.bfloat16()

    def forward(self, x):
        query, key, value = self.inner(self.norm(x)).chunk(3, -1)
        return x + self.outer((query @ key.mT * 128**-0.5).softmax(-1) @ value)
