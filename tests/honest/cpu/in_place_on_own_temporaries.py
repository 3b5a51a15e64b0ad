"""Works in place, but only on tensors that it made itself: the inputs stay as they were."""
# task: softmax
# expect: faster,same,slower,ambiguous

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x - x.amax(dim=1, keepdim=True)
        y.exp_()
        return y.div_(y.sum(dim=1, keepdim=True))
