"""The logarithm of every probability, without a look at zeros: NaN wherever one is not chosen at all.

Judge 14 left probabilities as they were drawn: right in two of two verdicts.
"""
# task: entropy
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, probabilities):
        return -(probabilities * probabilities.log()).sum(-1)
