"""What is learned of a task before anything is judged: which inputs are refused, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottega.judge.invalid_task import InvalidTask
from bottega.judge.task_profile import must_vary


@pytest.mark.parametrize(
    ("drawn", "why"),
    [
        (lambda: [torch.randn(0, 256)], "no tensor with elements"),
        (list, "no tensor with elements"),
        (lambda: [torch.ones(4)], "same contents every time"),
    ],
)
def test_inputs_that_tell_nothing_are_refused_by_their_reason(drawn: Callable[[], list[torch.Tensor]], why: str) -> None:
    reference: Any = SimpleNamespace(draw=lambda: SimpleNamespace(tensors=drawn()))
    with pytest.raises(InvalidTask, match=why):
        must_vary(reference)
