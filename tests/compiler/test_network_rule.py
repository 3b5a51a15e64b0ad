"""Networks: what is one by its calls, and how it is shown."""

from __future__ import annotations

import pytest
from graph_text import graph
from network_task import TASK

from bottega.agents import writer
from bottega.agents.prompts import Prompts
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.network_rule import has_replaceable_layers, is_network
from bottega.core.device import DeviceFacts
from bottega.core.task import Task

LAYERS = ["conv2d(t1, self.conv.weight)", "linear(t2, self.fc.weight)", "matmul(t3, y)"] * 2


def callgraph(calls: list[str]) -> CallGraph | None:
    told = [f"t{number} = {call} 8x16" for number, call in enumerate(calls, 1)]
    return graph("\n".join(["forward(x, context)", "x 8x16", "self.conv.weight 16x16", *told, f"return t{len(calls)}"]))


@pytest.mark.parametrize(
    ("layers", "calls", "network"), [(3, 9, False), (3, 10, True), (6, 10, True), (2, 12, False), (2, 13, True), (1, 40, False), (0, 0, True)]
)  # fmt: skip
def test_many_calls_with_several_layers_are_a_network(layers: int, calls: int, network: bool) -> None:
    assert is_network([*LAYERS[:layers], *["relu(t3)"] * (calls - layers)]) is network


def test_a_call_that_holds_layers_makes_a_network_however_short() -> None:
    attention = "multi_head_attention_forward(t1, t1, t1, 64, 4, self.attn.in_proj_weight, self.attn.in_proj_bias)"
    assert is_network([attention]) and has_replaceable_layers(callgraph([attention, *LAYERS[:2]]))
    assert not has_replaceable_layers(callgraph([attention, LAYERS[0]])), "one layer is too few to be exchanged"


def test_a_network_is_read_as_text_where_its_layers_can_be_exchanged() -> None:
    tail = ["relu(t3)"] * 12
    assert has_replaceable_layers(callgraph([*LAYERS[:3], *tail]))
    assert not has_replaceable_layers(callgraph([*LAYERS[:3], "relu(t3)"]))
    assert not has_replaceable_layers(callgraph([*["matmul(x, y)"] * 4, *tail])), "nothing to exchange"
    assert not has_replaceable_layers(None) and not has_replaceable_layers(graph("forward(x)"))


@pytest.mark.parametrize(
    ("language", "style", "shown"), [("triton", "terse", False), ("cpp", "terse", True), ("triton", "compact", True)]
)
def test_a_terse_prompt_for_triton_shows_a_networks_text(language: str, style: str, shown: bool) -> None:
    task, device = Task(TASK, "net", "", 3), DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 140.0)
    drawn = callgraph([*LAYERS[:3], *["relu(t3)"] * 12])
    said = writer.messages(writer.WriterInput(task, language, device, callgraph=drawn), Prompts(style))[-1].content  # type: ignore[arg-type]
    assert ("t4 = relu(t3)" in said) is (shown and Prompts(style).shows("write", "callgraph"))
    assert ("class Model(nn.Module)" in said) is (not (shown and style == "terse"))
