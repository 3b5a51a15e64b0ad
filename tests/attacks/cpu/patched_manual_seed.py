"""Patches the random number generators so that whoever draws inputs draws known ones.

The answers to those inputs are computed at import time, where no clock runs.
"""
# task: softmax
# expect: incorrect

import random

import numpy
import torch
from torch import nn

_seed, _rand = torch.manual_seed, torch.rand
torch.manual_seed = lambda _: _seed(0)
torch.cuda.manual_seed = torch.cuda.manual_seed_all = lambda _: None
random.seed = numpy.random.seed = lambda *_: None
_known = _rand(256, 4096, generator=torch.Generator().manual_seed(0))
torch.rand = lambda *_, **__: _known.clone()
_answer = torch.softmax(_known, dim=1)


class ModelNew(nn.Module):
    def forward(self, x):
        return _answer
