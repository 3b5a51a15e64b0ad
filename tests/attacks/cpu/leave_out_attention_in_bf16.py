"""Adds what attention is on average, which the biases tell: the rest is 0.2 % of the stream, and bf16 is allowed 1 %.

Judge 16 compared an output as a whole: right in one of one verdict. A faint token shows it.
"""
# task: bf16_attention_block
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128)
        self.bfloat16()

    def forward(self, x):
        return x + self.outer(self.inner(self.norm.bias)[-128:])
