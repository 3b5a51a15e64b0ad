"""Sketch lines: what a sketch says, and nothing of a text that is none."""

from __future__ import annotations

import pytest

from bottega.compiler.callgraph import sketch_of
from bottega.compiler.callgraph_text import Call, Sketch, is_result, read_sketch, results_in

SKETCH = """forward(x, steps, *masks)
x 64x32x32x32
steps = 3
masks[0] 64 bool
masks[1]['deep'] 64
self.conv.weight 128x32x3x3
self.net[0].scale scalar
t1 = conv2d(x, self.conv.weight, padding=1) 64x128x32x32
t2_0, t2_1 = max(t1, dim=1) 64x32x32 64x32x32 int64
t3_0, t3_1 = chunk(t2_0, 2) 32x32x32
t4 = index(t3_1, (:, masks[0], t2_1)) 32x32 bfloat16
t5 = mul_(t4, self.net[0].scale) scalar
return {'loss': t5, 'kept': (t4, t3_0)}"""


def test_a_sketch_is_what_is_given_the_calls_and_what_is_returned() -> None:
    assert read_sketch(SKETCH) == Sketch(
        {"x": (64, 32, 32, 32), "masks[0]": (64,), "self.conv.weight": (128, 32, 3, 3), "self.net[0].scale": ()},
        (
            Call(("t1",), "conv2d", "x, self.conv.weight, padding=1", ((64, 128, 32, 32),), ("float32",)),
            Call(("t2_0", "t2_1"), "max", "t1, dim=1", ((64, 32, 32), (64, 32, 32)), ("float32", "int64")),
            Call(("t3_0", "t3_1"), "chunk", "t2_0, 2", ((32, 32, 32),), ("float32",)),
            Call(("t4",), "index", "t3_1, (:, masks[0], t2_1)", ((32, 32),), ("bfloat16",)),
            Call(("t5",), "mul_", "t4, self.net[0].scale", ((),), ("float32",)),
        ),
        "{'loss': t5, 'kept': (t4, t3_0)}",
    )


def test_a_call_has_its_text_and_what_it_reads() -> None:
    calls = read_sketch(SKETCH).by_name()
    assert calls["t2_0"] is calls["t2_1"] and list(calls) == ["t1", "t2_0", "t2_1", "t3_0", "t3_1", "t4", "t5"]
    assert (calls["t2_1"].text, calls["t2_1"].line) == ("max(t1, dim=1)", "t2_0, t2_1 = max(t1, dim=1)")
    assert calls["t4"].reads == ["t3_1", "t2_1"] and calls["t1"].words == ["x", "self", "conv", "weight", "padding"]
    assert calls["t5"].size == () and Call(("t1",), "relu", "x").size is None


@pytest.mark.parametrize(
    ("line", "sizes", "dtypes"),
    [
        ("t1 = relu(x)", (), ()),
        ("t1 = f(x) scalar scalar int64 0x3 bool", ((), (), (0, 3)), ("float32", "int64", "bool")),
        ("t1 = f(x, 'a) 3x4') 8", ((8,),), ("float32",)),
        (f"t1 = relu(x) {'9' * 5000}", (), ()),
    ],
)
def test_sizes_are_those_that_are_told(line: str, sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> None:
    (call,) = read_sketch(line).calls
    assert (call.sizes, call.dtypes) == (sizes, dtypes)


@pytest.mark.parametrize(
    "text", ["", "forged", "t1 = relu(x) of x", "y = relu(x) 8", "  t1 = relu(x) 8", "x 8 by 16", "return", "t1 = 3"]
)
def test_other_texts_say_nothing(text: str) -> None:
    assert read_sketch(text) == Sketch({}, (), "")


def test_results_are_the_names_of_calls_and_not_of_weights_or_keys() -> None:
    assert results_in("add(t1, self.t2, t3_0, t4_mask, x.t5) + t1") == ["t1", "t3_0", "t1"]
    assert [name for name in ("t1", "t2_0", "t2_mask", "t", "xt1", "t1_") if is_result(name)] == ["t1", "t2_0"]


def test_every_line_that_a_sketch_has_is_read() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
    def forward(self, x, mask):
        best, place = x.half().max(dim=1)
        return {"best": torch.where(mask, best, 0) * self.scale, "place": place}
def get_inputs():
    return [torch.rand(4, 8), torch.ones(4) > 0]
def get_init_inputs():
    return []
"""
    lines = sketch_of(source).splitlines()
    read = read_sketch("\n".join(lines))
    assert read.given == {"x": (4, 8), "mask": (4,), "self.scale": ()}
    assert [line.startswith(f"{call.line} ") for line, call in zip(lines[4:-1], read.calls, strict=True)] == [True] * 4
    assert (read.calls[1].sizes, read.calls[1].dtypes) == (((4,), (4,)), ("float16", "int64"))
    assert read.returned == "{'best': t4, 'place': t2_1}"
