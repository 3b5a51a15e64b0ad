"""One short kernel on a side stream that nobody joins: on the main stream the call takes no time at all.

Whoever waits for the whole device before looking finds the result there; a program that reads it in stream order does not. So short
a kernel may be over before anyone can look; then the controller's clock, which waits for all streams, leaves nothing to gain.
"""
# task: gpu_softmax
# expect: incorrect,rejected,ambiguous,same,slower

import torch
from torch import nn


class ModelNew(nn.Module):
    stream = None

    def forward(self, x):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            return torch.softmax(x, dim=1)
