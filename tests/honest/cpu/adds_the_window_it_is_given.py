"""Adds the mask that it is given to the scores."""
# task: given_window_mask
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

from torch import nn


class ModelNew(nn.Module):
    def forward(self, query, key, value, mask):
        scores = (query @ key.mT * 32**-0.5).masked_fill_(~mask, float("-inf"))
        return scores.softmax(-1) @ value
