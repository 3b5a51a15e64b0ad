"""Memory traffic by the plans: torch.compile's is made without a GPU, and a draft is held against it."""

from __future__ import annotations

import pytest
from compiled_plan import compiled_plan
from traffic import module_of, plans

from bottega.core.task import Task

SOURCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.n = nn.GroupNorm(2, 16)

    def forward(self, x):
        return nn.functional.silu(self.n(self.c(x)))


def get_inputs():
    return [torch.randn(2, 8, 96, 96)]


def get_init_inputs():
    return []
"""
WEIGHTS, INPUT, RESULT = 16 * 8 * 9 * 4, 2 * 8 * 96 * 96 * 4, 2 * 16 * 96 * 96 * 4
STATISTICS, GAINS = 2 * 2 * 2 * 4, 2 * 16 * 4


@pytest.mark.rotates
def test_a_convolution_and_a_norm_move_what_they_must() -> None:
    task = Task(SOURCE, "norm")
    drafts = {label: [one.bytes for one in launches] for label, launches in plans(task, 3)}
    ours = drafts["torch products, fused"]
    assert ours == [INPUT + WEIGHTS + RESULT, RESULT + STATISTICS, 2 * RESULT + STATISTICS + GAINS]
    theirs = [one.bytes for one in compiled_plan(lambda: module_of(task))]
    assert theirs[0] == ours[0]
    assert 2 * RESULT <= theirs[-1] <= 1.01 * ours[-1]
    assert sum(ours) <= 1.01 * sum(theirs)
