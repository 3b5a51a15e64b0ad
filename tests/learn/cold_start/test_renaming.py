"""Examples under other names: consistent in task and kernel, nothing of torch's touched, and still the same computation."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from bottega.agents import writer
from bottega.agents.fences import blocks, fenced
from bottega.backbone.chat import Message
from bottega.learn.cold_start.answers import written
from bottega.learn.cold_start.example import Example
from bottega.learn.cold_start.renaming import renamed

TASK = """import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 4


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.full((width,), 0.5))
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, bias):
        x = F.linear(x, self.linear.weight, self.linear.bias)
        return x * self.gain * self.weight + bias


def get_inputs():
    return [torch.randn(rows, 8), torch.randn(8)]


def get_init_inputs():
    return [8]
"""
KERNEL = TASK[: TASK.index("def get_inputs")].replace("class Model", "class ModelNew").replace("rows = 4\n\n\n", "")


def example(task: str = TASK, kernel: str = KERNEL) -> Example:
    said = (
        Message("system", "Write."),
        Message("user", fenced(task, "python")),
        Message("assistant", written(kernel, "One kernel.", "terse")),
    )
    return Example("write", "first", said, "t", "t", "triton", 1, "matmul", ("linear",), "chain", ("naive",), "faster")


@pytest.mark.parametrize("seed", range(6))
def test_a_renamed_example_computes_the_same(seed: int) -> None:
    torch = pytest.importorskip("torch")
    copy = renamed(example(), seed)
    assert copy is not None and copy.renamed and copy.messages != example().messages
    task, kernel = {}, {}
    exec(blocks(copy.messages[1].content)[0].body, task)
    exec(writer.parse(copy.messages[-1].content).source, kernel)
    model, new = task["Model"](*task["get_init_inputs"]()), kernel["ModelNew"](*task["get_init_inputs"]())
    new.load_state_dict(model.state_dict())
    given = task["get_inputs"]()
    assert torch.equal(model(*given), new(*given))


def test_names_that_mean_something_else_as_well_stay() -> None:
    for seed in range(6):
        copy = renamed(example(), seed)
        assert copy is not None
        text = copy.messages[-1].content
        assert (
            "F.linear(" in text and ".linear.weight" in text and ".linear.bias" in text
        )  # linear, weight, bias: also torch's words
        assert "self.weight" in text


def test_copies_differ_and_are_the_same_again() -> None:
    copies = [renamed(example(), seed) for seed in range(4)]
    assert len({copy.messages for copy in copies if copy}) > 1
    assert copies == [renamed(example(), seed) for seed in range(4)]


def test_what_cannot_be_read_is_left_out() -> None:
    broken = replace(
        example(),
        messages=(Message("system", "Write."), Message("user", fenced("def (", "python")), Message("assistant", "no")),
    )
    assert renamed(broken, 0) is None
    assert renamed(replace(broken, messages=broken.messages[:1]), 0) is None


def test_no_new_name_was_there_before() -> None:
    before = {node.id for node in ast.walk(ast.parse(TASK)) if isinstance(node, ast.Name)} | {"gain", "x", "width"}
    for seed in range(6):
        copy = renamed(example(), seed)
        assert copy is not None
        after = ast.parse(blocks(copy.messages[1].content)[0].body)
        forward = next(node for node in ast.walk(after) if isinstance(node, ast.FunctionDef) and node.name == "forward")
        new = [argument.arg for argument in forward.args.args[1:]]
        assert len(set(new)) == 2 and all(name in ("x", "bias") or name not in before for name in new)
