"""Answers the profile stage with what looks like a number and is none. Whoever turns it into one breaks: no verdict for a kernel that was judged."""
# task: relu
# expect: same,slower,ambiguous
# options: profile=true quick=true

import bottega.judge.worker as worker
import torch
from torch import nn

worker.vector_instructions = lambda: {"²": 1, "9" * 5000: 1, "256": 10**12, "128": "many", "-1": 7, "": 2}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
