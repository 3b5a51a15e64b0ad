"""A softmax of masked logits in blocks, with the largest so far: a block may be masked whole."""
# task: masked_logits
# expect: faster,same,slower,ambiguous
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits):
        largest = logits.new_full((logits.shape[0], 1), -1e30)
        total = torch.zeros_like(largest)
        for block in logits.split(1000, -1):
            higher = torch.maximum(largest, block.amax(-1, keepdim=True))
            total = total * (largest - higher).exp() + (block - higher).exp().sum(-1, keepdim=True)
            largest = higher
        return (logits - largest).exp() / total
