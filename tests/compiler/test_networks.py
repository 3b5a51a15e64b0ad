"""Networks: what is one by its calls, how it is shown, and what its answer leaves out."""

from __future__ import annotations

import pytest

from bottega.agents import writer
from bottega.agents.prompts import Prompts
from bottega.compiler.networks import graph_methods, is_network, is_read_as_text, made_whole
from bottega.core.device import DeviceFacts
from bottega.core.task import Task

TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 4)

    def forward(self, x, context):
        return self.fc(self.norm(self.conv(x)).mean((2, 3))) + context


def get_inputs():
    return [torch.randn(2, 3, 8, 8), torch.randn(2, 4)]


def get_init_inputs():
    return []
"""
LAYERS = ["conv2d(t1, self.conv.weight)", "linear(t2, self.fc.weight)", "matmul(t3, y)"] * 2


def sketch(calls: list[str]) -> str:
    told = [f"t{number} = {call} 8x16" for number, call in enumerate(calls, 1)]
    return "\n".join(["forward(x, context)", "x 8x16", "self.conv.weight 16x16", *told, f"return t{len(calls)}"])


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


@pytest.mark.parametrize(
    ("layers", "calls", "network"), [(3, 9, False), (3, 10, True), (6, 10, True), (2, 12, False), (2, 13, True), (1, 40, False), (0, 0, True)]
)  # fmt: skip
def test_many_calls_with_several_layers_are_a_network(layers: int, calls: int, network: bool) -> None:
    assert is_network([*LAYERS[:layers], *["relu(t3)"] * (calls - layers)]) is network


def test_a_call_that_holds_layers_makes_a_network_however_short() -> None:
    attention = "multi_head_attention_forward(t1, t1, t1, 64, 4, self.attn.in_proj_weight, self.attn.in_proj_bias)"
    assert is_network([attention]) and is_read_as_text(sketch([attention, *LAYERS[:2]]))
    assert not is_read_as_text(sketch([attention, LAYERS[0]])), "one layer is too few to be exchanged"


def test_a_network_is_read_as_text_where_its_layers_can_be_exchanged() -> None:
    tail = ["relu(t3)"] * 12
    assert is_read_as_text(sketch([*LAYERS[:3], *tail]))
    assert not is_read_as_text(sketch([*LAYERS[:3], "relu(t3)"]))
    assert not is_read_as_text(sketch([*["matmul(x, y)"] * 4, *tail])), "nothing to exchange"
    assert not is_read_as_text("") and not is_read_as_text("forward(x)")


@pytest.mark.parametrize(
    ("language", "style", "shown"), [("triton", "terse", False), ("cpp", "terse", True), ("triton", "compact", True)]
)
def test_a_terse_prompt_for_triton_shows_a_networks_text(language: str, style: str, shown: bool) -> None:
    task, device = Task(TASK, "net", "", 3), DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 140.0)
    drawn = sketch([*LAYERS[:3], *["relu(t3)"] * 12])
    said = writer.messages(writer.WriterInput(task, language, device, sketch=drawn), Prompts(style))[-1].content  # type: ignore[arg-type]
    assert ("t4 = relu(t3)" in said) is (shown and Prompts(style).shows("write", "sketch"))
    assert ("class Model(nn.Module)" in said) is (not (shown and style == "terse"))


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
    assert made_whole(given, TASK) == WHOLE


@pytest.mark.parametrize("given", ["", "def", "class ModelNew(Model):\n    def forward(self, x):\n        return x\n"])
def test_other_answers_stay(given: str) -> None:
    assert made_whole(given, TASK) == given


def test_kinds_that_the_task_has_not_are_not_added() -> None:
    given = answer("modules()", ["Linear"], ["x", "context"])
    assert (
        made_whole(given, TASK.replace("nn.Conv2d(3, 16, 3)", "Other(3)").replace("nn.BatchNorm2d(16)", "nn.BatchNorm1d(16)"))
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
    assert made_whole(given, TASK) == given


def test_inputs_that_the_task_does_not_give_or_that_are_numbers_are_not_held() -> None:
    given = answer("modules()", ["Conv2d", "Linear", "BatchNorm2d"], ["x"])
    assert made_whole(given, TASK.replace(", torch.randn(2, 4)]", "]")) == given
    assert made_whole(given, TASK.replace(", torch.randn(2, 4)]", ", 3]")) == given


def test_a_layer_whose_name_the_task_or_the_answer_has_is_left_alone() -> None:
    given = answer("modules()", ["Linear", "BatchNorm2d"], ["x", "context"])
    assert made_whole(given, f"{TASK}\n\nclass Conv2d(nn.Module):\n    pass\n") == given
    guarded = given.replace(
        "elif type(layer) is nn.BatchNorm2d:",
        "elif type(layer) is nn.Conv2d and layer.groups == 1:\n                pass\n            elif type(layer) is nn.BatchNorm2d:",
    )
    assert made_whole(guarded, TASK) == guarded


def test_a_swap_that_does_more_is_not_torn_apart() -> None:
    given = answer("modules()", ["Linear"], ["x", "context"])
    more = given.replace(
        "layer.__class__ = Linear", "layer.__class__ = Linear\n                layer.turned = layer.weight.t()"
    )
    assert made_whole(more, TASK) == more
