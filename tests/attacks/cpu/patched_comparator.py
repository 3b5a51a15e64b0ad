"""Makes every comparison in torch and numpy say yes.

A harness that compares in the candidate's process accepts anything from here on; this returns zeros.
"""
# task: softmax
# expect: incorrect

import numpy
import torch
import torch.testing
from torch import nn


def yes(*_, **__):
    return True


torch.allclose = torch.equal = torch.Tensor.allclose = torch.Tensor.equal = yes
torch.testing.assert_close = numpy.allclose = numpy.array_equal = yes
numpy.testing.assert_allclose = yes
torch.isclose = torch.Tensor.isclose = lambda x, *_, **__: torch.ones_like(x, dtype=torch.bool)
torch.Tensor.__eq__ = lambda x, _: torch.ones_like(x, dtype=torch.bool)
torch.Tensor.all = lambda *_, **__: torch.tensor(True)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
