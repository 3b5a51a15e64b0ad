"""What a network's answer leaves out is put in; any other answer stays as it is."""

from __future__ import annotations

import pytest
from network_task import TASK

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.network_repair import complete_network
from bottega.compiler.network_rule import graph_methods


def answer(loop: str, kinds: list[str], held: list[str]) -> str:
    swaps = "\n".join(
        f"            {'elif' if number else 'if'} type(layer) is nn.{kind}:\n                layer.__class__ = {kind}"
        for number, kind in enumerate(kinds)
    )
    capture, lines = graph_methods("run", held, "tensor")
    names = "x, context"
    capture = "\n".join(
        f"    {line}" for line in capture.replace(f"capture(self, {', '.join(held)})", f"capture(self, {names})").split("\n")
    )
    body = "\n".join(f"        {line}" for line in lines).replace(f"self.capture({', '.join(held)})", f"self.capture({names})")
    return f"""import torch
import torch.nn as nn


class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for layer in self.{loop}:
{swaps}
        self.graph = None

    def run(self, {names}):
        return super().forward({names})

{capture}

    def forward(self, {names}):
{body}
"""


WHOLE = answer("modules()", ["Conv2d", "Linear", "BatchNorm2d"], ["x", "context"])


def completed(source: str, task_source: str) -> str:
    return complete_network(source, AnswerContext(task_source, "triton", "terse"))


@pytest.mark.parametrize(
    "given",
    [
        WHOLE,
        answer("layers", ["Conv2d", "Linear", "BatchNorm2d"], ["x", "context"]),
        answer("children()", ["Conv2d", "Linear", "BatchNorm2d"], ["x", "context"]),
        answer("modules()", ["Conv2d"], ["x", "context"]),
        answer("modules()", ["Conv2d", "Linear", "BatchNorm2d"], ["x"]),
        answer("blocks", ["Conv2d"], ["x"]),
    ],
)
def test_what_an_answer_leaves_out_is_put_in(given: str) -> None:
    assert completed(given, TASK) == WHOLE


@pytest.mark.parametrize("given", ["", "def", "class ModelNew(Model):\n    def forward(self, x):\n        return x\n"])
def test_other_answers_stay(given: str) -> None:
    assert completed(given, TASK) == given


def test_kinds_that_the_task_has_not_are_not_added() -> None:
    given = answer("modules()", ["Linear"], ["x", "context"])
    assert (
        completed(given, TASK.replace("nn.Conv2d(3, 16, 3)", "Other(3)").replace("nn.BatchNorm2d(16)", "nn.BatchNorm1d(16)"))
        == given
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def forward(self, x, context):", "def forward(self, x, context=None):"),
        ("self.run(self.static_x)", "self.run(self.static_x, context)"),
        ("return self.static_out.clone()", "return self.static_out[0].clone(), self.static_out[1].clone()"),
        ("self.graph.replay()", "with torch.no_grad():\n            self.graph.replay()"),
    ],
)
def test_a_graph_that_is_written_in_another_way_stays(old: str, new: str) -> None:
    given = answer("modules()", ["Conv2d", "Linear", "BatchNorm2d"], ["x"]).replace(old, new)
    assert completed(given, TASK) == given


def test_inputs_that_the_task_does_not_give_or_that_are_numbers_are_not_held() -> None:
    given = answer("modules()", ["Conv2d", "Linear", "BatchNorm2d"], ["x"])
    assert completed(given, TASK.replace(", torch.randn(2, 4)]", "]")) == given
    assert completed(given, TASK.replace(", torch.randn(2, 4)]", ", 3]")) == given


def test_a_layer_whose_name_the_task_or_the_answer_has_is_left_alone() -> None:
    given = answer("modules()", ["Linear", "BatchNorm2d"], ["x", "context"])
    assert completed(given, f"{TASK}\n\nclass Conv2d(nn.Module):\n    pass\n") == given
    guarded = given.replace(
        "elif type(layer) is nn.BatchNorm2d:",
        "elif type(layer) is nn.Conv2d and layer.groups == 1:\n                pass\n            elif type(layer) is nn.BatchNorm2d:",
    )
    assert completed(guarded, TASK) == guarded


def test_a_swap_that_does_more_is_not_torn_apart() -> None:
    given = answer("modules()", ["Linear"], ["x", "context"])
    more = given.replace(
        "layer.__class__ = Linear", "layer.__class__ = Linear\n                layer.turned = layer.weight.t()"
    )
    assert completed(more, TASK) == more
