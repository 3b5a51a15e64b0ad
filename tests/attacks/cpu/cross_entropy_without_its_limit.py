"""Logarithms that nobody holds at -100: infinite, or NaN, wherever a share is zero.

Of judge 14's variants the reference had no answer to any but the plain one and its signs: right in two of two verdicts.
"""
# task: cross_entropy_of_shares
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, shares, targets):
        return -(targets * shares.log() + (1 - targets) * (1 - shares).log())
