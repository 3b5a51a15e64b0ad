"""A task as a small model reads it: the call graph alone where there is one, else the file without prose."""

from __future__ import annotations

import ast

import pytest
from graph_text import graph

from bottega.agents.module_text import task_text, without_prose
from bottega.compiler.callgraph import CallGraph
from bottega.core.task import normalised
from bottega.tasks.load import load_tasks

GRAPH = graph("x 8x16\nreturn x")
TASK = '''\
"""A task."""

import torch
from torch import nn

# sizes
rows, width = 8, 16  # of the input


def bent(x: torch.Tensor) -> torch.Tensor:
    """Bend it."""

    return torch.relu(x)


class Model(nn.Module):
    """Documented,
    at length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        text = "# no comment"
        return bent(x)  # done


def only() -> None:
    """All that there is."""


def get_inputs():
    return [torch.randn(rows, width)]
'''
TEXT = '''\
import torch
from torch import nn

rows, width = 8, 16


def bent(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        text = "# no comment"
        return bent(x)


def only() -> None:
    """All that there is."""


def get_inputs():
    return [torch.randn(rows, width)]
'''


def test_prose_goes_and_all_else_stays_as_it_was_written() -> None:
    assert without_prose(TASK) == TEXT == without_prose(TEXT)


def test_a_terse_prompt_shows_no_task_beside_a_callgraph_and_the_bare_task_without_one() -> None:
    assert task_text(TASK, GRAPH, "terse") == ""
    assert task_text(TASK, None, "terse") == TEXT


@pytest.mark.parametrize("style", ["compact", "full"])
@pytest.mark.parametrize("callgraph", [None, GRAPH])
def test_other_prompts_show_the_task_as_it_is(style: str, callgraph: CallGraph | None) -> None:
    assert task_text(TASK, callgraph, style) == TASK


@pytest.mark.parametrize("source", ["", "def (", "x = 1\n", "x = '''\n"])
def test_what_is_no_task_is_left_alone(source: str) -> None:
    assert without_prose(source) == task_text(source, None, "terse") == source


def test_every_built_in_task_does_the_same_without_prose() -> None:
    for one in load_tasks(["builtin"], size="cpu").tasks:
        text = without_prose(one.source)
        assert len(text) <= len(one.source)
        assert ast.dump(ast.parse(normalised(text))) == ast.dump(ast.parse(normalised(one.source)))
