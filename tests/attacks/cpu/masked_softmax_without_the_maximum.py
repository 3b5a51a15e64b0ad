"""Exponentials of masked logits as they are: one pass less, and infinite beyond 88.

Judge 14 left inputs with infinities as they were drawn: right in four of four verdicts.
"""
# task: masked_logits
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits):
        powers = logits.exp()
        return powers / powers.sum(-1, keepdim=True)
