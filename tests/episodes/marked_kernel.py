"""A task and a delivered "kernel" for it: plain torch with a mark in its answers, so that a test sees who answered.

`probe.describe` gives the facts as it does in the sandbox; here it runs in the test's own process, on the test's own modules.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from bottega.episodes.delivery.optimized_file import delivered, facts_of
from bottega.episodes.delivery.probe import describe
from bottega.languages import candidate_from

MARK = 1e-4
"""What the kernel adds to the right answer, so that a test can tell who answered."""

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.dim, self.eps = dim, eps
        self.linear = nn.Linear(dim, dim)
        self.register_buffer("shift", torch.zeros(dim))

    def forward(self, x, scale):
        return (self.linear(x) + self.shift) * scale

def get_inputs():
    return [torch.randn(4, 16), 2.0]

def get_init_inputs():
    return [16]
"""
KERNEL = (
    TASK.partition("def get_inputs")[0]
    .replace("class Model", "class ModelNew")
    .replace("return (self.linear(x) + self.shift) * scale", f"return (self.linear(x) + self.shift) * scale + {MARK}")
)
ARGUMENTS: dict[str, Any] = {"source": TASK, "device": "cpu", "training": None, "precision": "fp32"}
"""Of the functions that the sandbox calls."""


def made(
    kernel: str = KERNEL, task: str = TASK, training: bool | None = None, precision: str = "fp32", device: str = "cpu"
) -> tuple[Any, Any]:
    """The delivered module and the task's, each imported from its text."""
    arguments = {"source": task, "device": device, "training": training, "precision": precision}
    facts = facts_of(describe(arguments), device, precision)
    return imported(delivered(candidate_from(kernel), facts, "Model").text, "optimized"), imported(task, "original")


def imported(text: str, name: str) -> Any:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


def who(module: Any, original: Any, *arguments: Any) -> str:
    answer, expected = module(*arguments), original(*arguments)
    torch.testing.assert_close(answer, expected, atol=2 * MARK, rtol=1e-4)
    return "original" if torch.equal(answer, expected) else "kernel"


def inputs(rows: int = 4) -> tuple[torch.Tensor, float]:
    return torch.randn(rows, 16), 2.0


def delivered_text(kernel: str, task: str = TASK) -> str:
    facts = facts_of(describe({**ARGUMENTS, "source": task}), "cpu", "fp32")
    return delivered(candidate_from(kernel), facts, "Model").text
