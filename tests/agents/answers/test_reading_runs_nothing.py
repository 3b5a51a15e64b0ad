"""Answers and tasks are strangers' text: reading an answer runs neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import ADMISSION, DEPLOYMENT, TRAINING, AnswerPolicy, read

TASK = """import torch
import torch.nn as nn

open({mark!r}, "w").write("the task ran")


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x @ y)


def get_inputs():
    return [torch.randn(4, 4), torch.randn(4, 4)]


def get_init_inputs():
    return []
"""
ANSWER = """```python
open({mark!r}, "w").write("the answer ran")


class ModelNew(Model):
    own = True

    def forward(self, x, y):
        return torch.relu(matmul(x, y))
```"""


@pytest.mark.parametrize("policy", [TRAINING, ADMISSION, DEPLOYMENT])
@pytest.mark.parametrize("style", ["terse", "compact"])
def test_reading_an_answer_runs_neither_it_nor_the_task(tmp_path: Path, policy: AnswerPolicy, style: str) -> None:
    mark = tmp_path / "ran"
    context = AnswerContext(TASK.format(mark=str(mark)), "triton", style)
    assert "matmul" in read(ANSWER.format(mark=str(mark)), context, policy).source
    assert not mark.exists(), mark.read_text()
