"""Which outputs are not worth a task."""

import pytest

from bottega.tasks.synth.fitness import fault

TASK = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        {body}

def get_inputs():
    return [torch.rand(4, 64)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return F.relu(self.norm(x) * self.linear.weight.sum() + self.linear.bias)", ""),
        ("return torch.log(-x)", "not finite"),
        ("return 1e-6 * x", "small"),
        ("return F.relu(x)", "same as the input"),
        ("return x.clamp(min=2.0)", "averaged"),
        ("return x.mean()", "averaged"),
        ("return F.relu(x - 0.95)", "mostly one value"),
        ("return self.norm(self.linear(x))", "a parameter without effect"),
    ],
)
def test_what_is_wrong_with_an_output(body: str, words: str) -> None:
    assert words in fault(TASK.format(body=body), 4, 1000)
    if not words:
        assert not fault(TASK.format(body=body), 4, 1000)
