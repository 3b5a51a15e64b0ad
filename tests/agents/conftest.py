"""A task, a device, cards and earlier turns, as small as they can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bottega.agents.history import Past
from bottega.core.device import DeviceFacts
from bottega.core.skill import Conditions, Skill
from bottega.core.task import Task

SOURCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return torch.relu(x) * self.gain


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512]
"""


@pytest.fixture(scope="session")
def task() -> Task:
    return Task(SOURCE, name="relu_gain", tags=("activation", "elementwise", "dtype:float32", "level:1"))


@pytest.fixture(scope="session")
def device() -> DeviceFacts:
    return DeviceFacts("cpu", "Some CPU", "x86_64 avx2", 8, 16.0, cache_mib=32.0, shared_kib=512.0)


@pytest.fixture(scope="session")
def card() -> Callable[..., Skill]:
    def make(
        name: str = "one_pass",
        technique: str = "Do it all in one loop over memory, with the row in the cache.",
        example: str = "for (;;) {}",
    ) -> Skill:
        conditions = Conditions("float32 in and out.", "rows are contiguous.", "none", "none", "none")
        return Skill(
            name, f"{name} saves reads of memory.", "general", ("fusion",), ("cpp",), ("cpu",), conditions, "Several passes.",
            technique, example, "One read instead of three.", ("A row that does not fit the cache is read twice.",),
        )  # fmt: skip

    return make


@pytest.fixture(scope="session")
def turn() -> Callable[..., Past]:
    def make(
        number: int = 1, outcome: str = "slower", speedup: float | None = 0.9, source: str = "", diagnosis: str = ""
    ) -> Past:
        return Past(
            source or f"# kernel {number}\nclass ModelNew: ...\n",
            f"Change {number}.",
            diagnosis or f"Told {number}.",
            outcome,
            speedup,
        )

    return make


@pytest.fixture(scope="session")
def count_tokens() -> Callable[[str], int]:
    """SmolLM2's own count where the embedded model is installed, else a third of the characters."""
    try:
        from bottega.backbone.embedded import _tokenizer, require_embedded_file
        from bottega.backbone.gguf import Gguf

        tokenizer = _tokenizer(Gguf(require_embedded_file()))
    except Exception:  # not installed, or without transformers
        return lambda text: len(text) // 3 + 1
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))
