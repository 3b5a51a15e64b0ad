"""Call graphs say what a module computes: calls, options, shapes and where every tensor comes from, or nothing at all."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

from bottega.compiler.callgraph import from_json
from bottega.compiler.callgraph_recorder import MOST_CALLS, NoCallGraph, record
from bottega.tasks.load import load_tasks

ONE = "[torch.randn(8, 16)]"
TWO = "[torch.randn(8, 16), torch.randn(8, 16)]"
IMAGE = "[torch.randn(2, 16, 32, 32)]"
SHAPED = re.compile(r"\) (?:scalar|\d+(?:x\d+)*)(?: |$)")
"""Behind a call, the shape of what it gives."""


def task(
    forward: str, inputs: str = ONE, layers: str = "pass", arguments: str = "x", before: str = "", given: str = "[]"
) -> str:
    """A task as KernelBench writes them."""
    return f"""\
import torch
import torch.nn as nn
import torch.nn.functional as F
{textwrap.dedent(before)}

class Model(nn.Module):
    def __init__(self, **sizes):
        super().__init__()
{textwrap.indent(textwrap.dedent(layers), " " * 8)}

    def forward(self, {arguments}):
{textwrap.indent(textwrap.dedent(forward), " " * 8)}


def get_inputs():
    return {inputs}


def get_init_inputs():
    return {given}
"""


def text_of(source: str) -> str:
    """As a prompt prints it; what travels as JSON is the same."""
    graph = record(source)
    assert from_json(json.loads(json.dumps(graph.to_json()))) == graph
    return graph.text


def calls(*arguments: str, **options: str) -> list[str]:
    """The lines after the head."""
    lines = text_of(task(*arguments, **options)).splitlines()
    return [line for line in lines if " = " in line or line.startswith("return")]


def test_layers_are_calls_with_weights_options_and_shapes() -> None:
    layers = """
    self.conv = nn.Conv2d(16, 64, 3, stride=2, padding=1, groups=2, bias=False)
    self.net = nn.Sequential(nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64 * 256, 10))
    """
    assert text_of(task("return self.net(self.conv(x))", IMAGE, layers)) == textwrap.dedent("""\
        forward(x)
        x 2x16x32x32
        self.conv.weight 64x8x3x3
        self.net[0].running_mean 64
        self.net[0].running_var 64
        self.net[0].weight 64
        self.net[0].bias 64
        self.net[3].weight 10x16384
        self.net[3].bias 10
        t1 = conv2d(x, self.conv.weight, stride=2, padding=1, groups=2) 2x64x16x16
        t2 = batch_norm(t1, self.net[0].running_mean, self.net[0].running_var, self.net[0].weight, self.net[0].bias, training=True) 2x64x16x16
        t3 = relu(t2) 2x64x16x16
        t4 = flatten(t3, 1, -1) 2x16384
        t5 = linear(t4, self.net[3].weight, self.net[3].bias) 2x10
        return t5""")


@pytest.mark.parametrize(
    "written", ["torch.relu(x)", "F.relu(x)", "x.relu()", "x.relu_()", "nn.ReLU()(x)", "torch.ops.aten.relu(x)"]
)
def test_all_ways_of_writing_a_call_are_one(written: str) -> None:
    assert calls(f"return {written}") == ["t1 = relu(x) 8x16", "return t1"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("1 - x", "sub(1, x) 8x16"),
        ("x - 1", "sub(x, 1) 8x16"),
        ("2 / x", "div(2, x) 8x16"),
        ("2 ** x", "pow(2, x) 8x16"),
        ("7 % x", "remainder(7, x) 8x16"),
        ("(x > 0) & (x < 1)", "bitwise_and(t1, t2) 8x16 bool"),
        ("x[:, None, 1:, ...]", "index(x, (:, None, 1:, ...)) 8x1x15"),
        ("x.view(x.size(0), -1)", "view(x, 8, -1) 8x16"),
        ("x.T", "T(x) 16x8"),
        ("x.half()", "half(x) 8x16 float16"),
        ("F.softmax(x, dim=-1)", "softmax(x, dim=-1) 8x16"),
        ("F.dropout(x, 0.3, training=False)", "dropout(x, p=0.3, training=False) 8x16"),
        ("x.sum()", "sum(x) scalar"),
        ("torch.where(x > 0, x, 0.5)", "where(t1, x, 0.5) 8x16"),
        ("x.contiguous(memory_format=torch.preserve_format)", "contiguous(x, memory_format=preserve_format) 8x16"),
    ],
)
def test_operators_and_options(written: str, told: str) -> None:
    assert calls(f"return {written}")[-2].split(" = ", 1)[1] == told


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ("nn.AvgPool2d(3, stride=1, padding=1)", "avg_pool2d(x, kernel_size=3, stride=1, padding=1) 2x16x32x32"),
        ("nn.AvgPool2d(2)", "avg_pool2d(x, kernel_size=2, stride=2) 2x16x16x16"),
        (
            "nn.ConvTranspose2d(16, 4, 4, 2, 1, bias=False)",
            "conv_transpose2d(x, self.op.weight, stride=2, padding=1) 2x4x64x64",
        ),
        ("nn.Conv2d(16, 4, (3, 5), padding=(1, 2), bias=False)", "conv2d(x, self.op.weight, padding=(1, 2)) 2x4x32x32"),
    ],
)
def test_a_default_is_left_out_only_where_it_is_the_functions_own(layers: str, told: str) -> None:
    assert calls("return self.op(x)", IMAGE, f"self.op = {layers}")[0] == f"t1 = {told}"


def test_how_a_scatter_reduces_is_told() -> None:
    inputs = "[torch.randn(8, 16), torch.randint(0, 8, (8, 16))]"
    written = "return x.scatter_reduce(0, i, x, reduce='amax'), torch.zeros(8, 16).scatter_(1, i, x, reduce='add')"
    first, _, second, _ = calls(written, inputs, arguments="x, i")
    assert first == "t1 = scatter_reduce(x, 0, i, x, reduce='amax') 8x16"
    assert second == "t3 = scatter(t2, 1, i, x, reduce='add') 8x16"
    assert calls("return F.mse_loss(x, y, reduction='sum')", TWO, arguments="x, y")[0].endswith("reduction='sum') scalar")


def test_what_is_changed_in_place_goes_on_under_a_new_name() -> None:
    written = "x += y\nx.mul_(2)\nx[:, 0] = y[:, 1]\nreturn F.relu(x, inplace=True)"
    assert calls(written, TWO, arguments="x, y") == [
        "t1 = add(x, y) 8x16", "t2 = mul(t1, 2) 8x16", "t3 = index(y, (:, 1)) 8", "t4 = setitem(t2, (:, 0), t3) 8x16", "t5 = relu(t4) 8x16",
        "return t5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("v = y[:, 0]\nv.add_(1)\nreturn y", ["t2 = index(t1, (:, 0)) 8", "t3 = add_(t2, 1) 8", "return t1"]),
        ("v = y[:, 0]\nv.add_(1)\nreturn v", ["t2 = index(t1, (:, 0)) 8", "t3 = add(t2, 1) 8", "return t3"]),
        ("v = y.view(-1)\ny.add_(1)\nreturn v", ["t2 = view(t1, -1) 128", "t3 = add_(t1, 1) 8x16", "return t2"]),
        ("v = y[:4]\nv[0] = 1\nreturn y * 3", ["t2 = index(t1, :4) 4x16", "t3 = setitem_(t2, 0, 1) 4x16", "t4 = mul(t1, 3) 8x16", "return t4"]),
        ("F.relu(y[0], inplace=True)\nreturn y", ["t2 = index(t1, 0) 16", "t3 = relu_(t2) 16", "return t1"]),
        ("torch.add(x, 1, out=y)\nreturn y", ["t2 = add(x, 1) 8x16", "return t2"]),
        ("y.index_put_((k,), x[0])\nreturn y", ["t2 = index(x, 0) 16", "t3 = index_put(t1, (k,), t2) 8x16", "return t3"]),
    ],
)  # fmt: skip
def test_a_change_behind_a_view_is_marked_where_it_is_seen(written: str, told: list[str]) -> None:
    inputs = "[torch.randn(8, 16), torch.tensor([1, 2])]"
    assert calls("y = x * 2\n" + written, inputs, arguments="x, k")[1:] == told


def test_a_module_that_keeps_state_says_so() -> None:
    written = "self.seen += x.mean(0)\nreturn x - self.seen"
    told = calls(written, layers="self.register_buffer('seen', torch.zeros(16))")
    assert told[1:] == ["t2 = add_(self.seen, t1) 16", "t3 = sub(x, t2) 8x16", "return t3"]


def test_several_results_have_a_name_each() -> None:
    written = "m, i = x.max(dim=1)\na, b = x.chunk(2, 1)\ns = x.sort()\nfirst, *rest = x[:3]\nreturn {'m': m, 'i': i}, a * b, s.values, rest"
    assert calls(written) == [
        "t1_0, t1_1 = max(x, dim=1) 8 8 int64",
        "t2_0, t2_1 = chunk(x, 2, 1) 8x8",
        "t3_0, t3_1 = sort(x) 8x16 8x16 int64",
        "t4 = index(x, :3) 3x16",
        "t5_0, t5_1, t5_2 = unbind(t4, 0) 16",
        "t6 = mul(t2_0, t2_1) 8x8",
        "return ({'m': t1_0, 'i': t1_1}, t6, t3_0, [t5_1, t5_2])",
    ]


@pytest.mark.parametrize(
    ("arguments", "inputs", "written", "told"),
    [
        ("pair, k", "[(torch.randn(4), torch.arange(4)), 3]", "return pair[0] * pair[1] * k",
         ["forward(pair, k)", "pair[0] 4", "pair[1] 4 int64", "k = 3", "t1 = mul(pair[0], pair[1]) 4", "t2 = mul(t1, 3) 4", "return t2"]),
        ("batch", "[{'a': torch.rand(4) > 0.5}]", "return ~batch['a']",
         ["forward(batch)", "batch['a'] 4 bool", "t1 = invert(batch['a']) 4 bool", "return t1"]),
        ("*xs", "[torch.randn(4, 1), torch.randn(4, 2)]", "return torch.cat(xs, 1)",
         ["forward(*xs)", "xs[0] 4x1", "xs[1] 4x2", "t1 = cat((xs[0], xs[1]), 1) 4x3", "return t1"]),
        ("**named", "{'a': torch.randn(4)}", "return named['a'] + 1", ["forward(a)", "a 4", "t1 = add(a, 1) 4", "return t1"]),
        ("a, b", "[SAME, SAME]", "return a * b", ["forward(a, b)", "a 4", "b 4", "t1 = mul(a, b) 4", "return t1"]),
        ("t1, t2_0", "[torch.randn(4), torch.randn(4)]", "return t1 * t2_0",
         ["forward(t1, t2_0)", "t1 4", "t2_0 4", "t3 = mul(t1, t2_0) 4", "return t3"]),
        ("x, y=None, *, z=2", "{'x': torch.randn(4), 'z': 3}", "return x", ["forward(x, z)", "x 4", "z = 3", "return x"]),
        ("x", "[torch.randn(4)]", "return x", ["forward(x)", "x 4", "return x"]),
        ("x", "[torch.randn(4)]", "return None", ["forward(x)", "x 4", "return None"]),
    ],
)  # fmt: skip
def test_inputs_of_every_form(arguments: str, inputs: str, written: str, told: list[str]) -> None:
    assert text_of(task(written, inputs, arguments=arguments, before="SAME = torch.ones(4)")).splitlines() == told


def test_tensors_that_are_no_parameters_are_named_too() -> None:
    layers = """
    self.plain, self.some = torch.ones(16), [torch.ones(16)]
    self.a = nn.Linear(16, 16, bias=False)
    self.b = nn.Linear(16, 16)
    self.b.weight = self.a.weight
    """
    told = text_of(
        task("return self.b(self.a(x) * self.plain + self.some[0]) - TABLE", layers=layers, before="TABLE = torch.ones(16)")
    )
    head = ["forward(x)", "x 8x16", "self.a.weight 16x16", "self.plain 16", "self.some[0] 16", "self.b.bias 16", "TABLE 16"]
    assert told.splitlines()[:7] == head and "t4 = linear(t3, self.a.weight, self.b.bias) 8x16" in told


@pytest.mark.parametrize(
    ("layers", "inputs", "dtype"),
    [
        ("self.net = nn.LSTM(16, 4)\nself.half()", "[torch.randn(8, 2, 16).half()]", " float16"),
        ("self.net = nn.LSTM(16, 4)\nself.size = torch.ones(3).sum().item()", "[torch.randn(8, 2, 16)]", ""),
        ("self.net = nn.LSTM(16, 4)", "[torch.randn(int(torch.ones(8).sum().item()), 2, 16)]", ""),
    ],
)
def test_modules_that_must_be_made_really(layers: str, inputs: str, dtype: str) -> None:
    told = text_of(task("return self.net(x)[0]", inputs, layers))
    assert told.splitlines()[:3] == ["forward(x)", f"x 8x2x16{dtype}", f"self.net.weight_ih_l0 16x16{dtype}"]
    assert told.endswith(f"8x2x4{dtype} 1x2x4{dtype} 1x2x4{dtype}\nreturn t3_0")


def test_constructors_by_keyword_and_outputs_of_a_class() -> None:
    before = "import dataclasses\n@dataclasses.dataclass\nclass Out:\n    a: object\n    b: object"
    told = calls(
        "return Out(self.fc(x), x)",
        layers="self.fc = nn.Linear(sizes['a'], sizes['b'])",
        before=before,
        given="{'a': 16, 'b': 4}",
    )
    assert told == ["t1 = linear(x, self.fc.weight, self.fc.bias) 8x4", "return Out(a=t1, b=x)"]


@pytest.mark.parametrize(
    "written",
    [
        "for _ in range(99):\n    x = x + 1\nreturn x",
        "for _ in range(99):\n    try:\n        x = x + 1\n    except Exception:\n        pass\nreturn x",
        "x.data.add_(1)\nreturn x",
        "return torch.jit.script(nn.ReLU())(x)",
        "with torch.inference_mode():\n    y = x + 1\n    y[0] = 1\n    return y",
        "return torch.randn(99, 4).unbind(0)[0]",
    ],
)
def test_what_cannot_be_told_truly_has_no_call_graph(written: str) -> None:
    with pytest.raises(NoCallGraph):
        text_of(task(written))


@pytest.mark.parametrize(
    "written", ["return x * x.max().item()", "return x[x > 0]", "return torch.from_numpy(x.numpy())", "1 / 0"]
)
def test_code_that_looks_at_numbers_or_fails_raises(written: str) -> None:
    with pytest.raises(Exception):  # noqa: B017 (its own or torch's)
        text_of(task(written))


def test_every_task_of_the_suite_is_told_the_same_twice_or_is_too_long() -> None:
    told = 0
    for one in load_tasks(["builtin"], size="gpu").tasks[::6]:
        try:
            first = text_of(one.source)
        except NoCallGraph as error:
            assert str(MOST_CALLS) in str(error)
            continue
        told += 1
        assert first == text_of(one.source) and first.splitlines()[-1].startswith("return ")
        assert all(SHAPED.search(line) for line in first.splitlines() if re.match(r"t\d", line))
    assert told >= 5
