"""The module's text as a small model reads it: everything that the module needs, nothing that it does not."""

from __future__ import annotations

import ast

import pytest

from bottega.agents.module_text import module_text, task_text
from bottega.core.statements import binds, reads
from bottega.tasks.load import load_tasks

TASK = '''\
"""A task."""
import math
import torch
import torch.nn as nn
from torch.nn import functional as F

# sizes
rows, width = 8, 16
scale: float = 2.0
unused = math.pi


def bent(x: torch.Tensor) -> torch.Tensor:
    """Bend it."""
    return F.relu(x) * scale


class Base(nn.Module):
    def __init__(self, *sizes: int, **named: int) -> None:
        super(Base, self).__init__()


class Model(Base):
    """Documented."""

    def __init__(self, width: int = width, rows: int = 3):
        super(Model, self).__init__(width)
        self.gain = nn.Parameter(torch.ones(width))  # a gain

    def forward(self, x: torch.Tensor, /, y: "torch.Tensor | None" = None) -> torch.Tensor:
        return bent(x) * self.gain


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return []
'''
TEXT = """\
import torch
import torch.nn as nn
from torch.nn import functional as F
rows, width = (8, 16)
scale: float = 2.0

def bent(x):
    return F.relu(x) * scale

class Base(nn.Module):

    def __init__(self, *sizes, **named):
        super().__init__()

class Model(Base):

    def __init__(self, width=width, rows=3):
        super().__init__(width)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x, /, y=None):
        return bent(x) * self.gain
"""


def test_what_the_module_needs_and_nothing_else() -> None:
    assert module_text(TASK) == TEXT


def test_only_a_terse_prompt_with_a_sketch_is_short() -> None:
    assert task_text(TASK, "x 8x16\nreturn x", "terse") == TEXT
    for sketch, style in (("", "terse"), ("x 8x16\nreturn x", "compact"), ("x 8x16\nreturn x", "full")):
        assert task_text(TASK, sketch, style) == TASK


def test_a_name_that_is_bound_twice_keeps_both() -> None:
    before = "import torch\nsize = 4\nsize = size * 2\nfrom torch.nn import *\n"
    text = module_text(before + "class Model(Module):\n    width = size\nModel.depth = 3\ndef get_inputs():\n    return []\n")
    assert (
        text
        == "size = 4\nsize = size * 2\nfrom torch.nn import *\n\nclass Model(Module):\n    width = size\n\nModel.depth = 3\n"
    )


def test_the_super_of_another_class_stays() -> None:
    source = (
        "class A:\n    pass\nclass B(A):\n    pass\nclass Model(B):\n    def go(self):\n        return super(B, self).go()\n"
    )
    assert "super(B, self).go()" in module_text(source)


@pytest.mark.parametrize("more", ["torch.manual_seed(0)", "if True:\n    Model.depth = 3", "for _ in range(3):\n    pass"])
def test_a_file_that_does_something_keeps_it(more: str) -> None:
    text = module_text(TASK + more + "\n")
    assert more in text and "def get_inputs" in text and "Documented" not in text


@pytest.mark.parametrize("source", ["", "def (", "x = 1\n"])
def test_what_is_no_task_is_left_alone(source: str) -> None:
    assert module_text(source) == source


def test_nothing_is_missing_in_the_text_of_any_built_in_module() -> None:
    for one in load_tasks(["builtin"], size="cpu").tasks:
        text = module_text(one.source)
        assert len(text) <= len(one.source) and "def get_inputs" not in text
        here, there = (ast.parse(source).body for source in (text, one.source))
        bound, known = ({name for statement in body for name in binds(statement)} for body in (here, there))
        needed = {name for statement in here for name in reads(statement)}
        assert needed & known <= bound
