"""Every kind of call and of value that a task may have: an honest candidate is right, a subtly wrong one is not, or the task is refused.

A case is a piece of a task's text. The candidate is the same text; `twin` is another text for the same (the kind of container that counts
as the same), `wrong` one that is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

pytestmark = pytest.mark.rotates

HEAD = """
import collections
import torch
import torch.nn as nn
import torch.nn.functional as F
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

Pair = collections.namedtuple("Pair", "first second")

class Labelled(torch.Tensor):
    pass

@dataclass
class Fields:
    first: Any
    second: Any = None

@dataclass
class Config:
    width: int = 16
    scale: float = 2.0

fp8 = torch.float8_e4m3fn
"""


@dataclass(frozen=True)
class Case:
    output: str
    """What forward returns …"""
    wrong: str
    """… and what a wrong candidate returns."""
    inputs: str = "[torch.randn(8, 16)]"
    arguments: str = "self, x"
    twin: str = ""
    """Another text that returns the same."""
    build: str = "pass"
    build_arguments: str = "self"
    init: str = "[]"
    head: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def source(self, class_name: str, output: str) -> str:
        return f"""{HEAD}{self.head}

class {class_name}(nn.Module):
    def __init__({self.build_arguments}):
        super().__init__()
        {self.build}

    def forward({self.arguments}):
        return {output}

def get_inputs():
    return {self.inputs}

def get_init_inputs():
    return {self.init}
"""

    @property
    def task(self) -> Task:
        return Task(self.source("Model", self.output), name="a kind", origin="folder/kind.py")

    def candidate(self, output: str) -> Candidate:
        return candidate_from(self.source("ModelNew", output))


CALLS = {
    "optional argument given": Case("x * scale", "x * 1", "[torch.randn(8, 16), 3.0]", "self, x, scale=1.0"),
    "optional argument left out": Case("x * scale", "x * 1", arguments="self, x, scale=1.5", twin="x + x * 0.5"),
    "optional tensor left out": Case("x + 1 if mask is None else x * mask", "x + 1.01", arguments="self, x, mask=None"),
    "None given": Case("x + 1 if mask is None else x", "x * 1", "[torch.randn(8, 16), None]", "self, x, mask"),
    "by name": Case("x - y", "y - x", "{'y': torch.randn(9), 'x': torch.randn(9)}", "self, x, y"),
    "keyword-only": Case("x - y * z", "x - y", "{'x': torch.randn(9), 'y': torch.randn(9)}", "self, x, *, y, z=2.0"),
    "pair": Case("x - y", "y - x", "[[torch.randn(9)], {'y': torch.randn(9)}]", "self, x, *, y"),
    "pair of tuples": Case("x - y", "y - x", "((torch.randn(9),), dict(y=torch.randn(9)))", "self, x, *, y"),
    "open-ended names": Case(
        "x - more['y'] * more['k']", "x - more['y']", "{'x': torch.randn(9), 'y': torch.randn(9), 'k': 2}", "self, x, **more"
    ),
    "open-ended places": Case("sum(xs)", "xs[0] + xs[1]", "[torch.randn(9) for _ in '123']", "self, *xs"),
    "a gap among the names": Case("x * b - a", "x * b", "{'x': torch.randn(9), 'b': 3.0}", "self, x, a=1.0, b=2.0"),
    "one dictionary": Case("b['x'] - b['y']", "b['x'] * 1", "{'x': torch.randn(9), 'y': torch.randn(9)}", "self, b"),
    "list and dictionary": Case("xs[0] * o['k']", "xs[0] * 1", "[[torch.randn(9)], {'k': 2.0}]", "self, xs, o"),
    "named tuple": Case("p.first - p[1]", "p.first * 1", "[Pair(torch.randn(9), torch.randn(9))]", "self, p"),
    "dictionary in its own order": Case(
        "torch.cat(list(b.values()))", "torch.cat([b['a'], b['b']])", "[{'b': torch.randn(9), 'a': torch.randn(9)}]", "self, b"
    ),
    "text and types": Case(
        "x.to(kind) if how == 'cast' else x",
        "x.to(kind) * 1.01",
        "[torch.randn(9), torch.float64, 'cast']",
        "self, x, kind, how",
    ),
    "constructor by name": Case(
        "x * self.scale",
        "x * 1",
        build_arguments="self, width, *, scale",
        build="self.scale = scale",
        init="dict(width=3, scale=2.5)",
    ),
    "constructor by a pair": Case(
        "x * self.scale",
        "x * 1",
        build_arguments="self, width, *, scale",
        build="self.scale = scale",
        init="[[3], {'scale': 2.5}]",
    ),
    "constructor with an empty pair": Case("x * 2", "x * 2.001", init="[[], {}]"),
    "constructor with a class of the task": Case(
        "x * self.c.scale", "x * self.c.width", build_arguments="self, c", build="self.c = c", init="[Config(scale=3.0)]"
    ),
    "constructor with modules and functions": Case(
        "self.g(self.f(x))",
        "self.g(x)",
        build_arguments="self, f, g",
        build="self.f, self.g = f, g",
        init="[nn.Tanh(), torch.exp]",
    ),
}
CONTAINERS = {
    "list": Case("[x.exp(), x + 1]", "[x + 1, x.exp()]", twin="(x.exp(), x + 1)"),
    "named tuple": Case("Pair(x.exp(), x + 1)", "Pair(x + 1, x.exp())", twin="[x.exp(), x + 1]"),
    "tuple for a named one": Case("(x.exp(), x + 1)", "(x.exp(),)", twin="Pair(x.exp(), x + 1)"),
    "torch's own": Case("x.max(-1)", "x.min(-1)", twin="(x.max(-1).values, x.max(-1).indices)"),
    "dictionary in another order": Case(
        "{'a': x.exp(), 'b': x + 1}", "{'b': x.exp(), 'a': x + 1}", twin="{'b': x + 1, 'a': x.exp()}"
    ),
    "dictionary, another key": Case("{'a': x.exp()}", "{'b': x.exp()}", twin="OrderedDict(a=x.exp())"),
    "dictionary, one key more": Case("{'a': x.exp()}", "{'a': x.exp(), 'b': x * 1}"),
    "integer keys": Case("{10: x.exp(), 9: x}", "{'10': x.exp(), '9': x}", twin="{9: x * 1, 10: x.exp()}"),
    "dataclass": Case("Fields(x.exp(), x + 1)", "Fields(x + 1, x.exp())", twin="{'second': x + 1, 'first': x.exp()}"),
    "dataclass with None": Case("Fields(x.exp())", "Fields(x.exp(), x * 1)", twin="{'first': x.exp(), 'second': None}"),
    "nested": Case(
        "[(x.exp(), {'k': Fields([x], {1: x + 1})}), None]",
        "[(x.exp(), {'k': Fields([x], {1: x + 2})}), None]",
        twin="((x.exp(), {'k': {'second': {1: x + 1}, 'first': (x,)}}), None)",
    ),
    "None beside": Case("(x.exp(), None)", "(x.exp(), x * 1)"),
    "integer beside": Case("(x.exp(), x.shape[0])", "(x.exp(), x.shape[0] + 1)", twin="[x.exp(), 8]"),
    "boolean beside": Case("(x.exp(), True)", "(x.exp(), 1)"),
    "text beside": Case("(x.exp(), 'label')", "(x.exp(), 'labels')"),
    "size beside": Case("(x.exp(), x.shape)", "(x.exp(), x.t().shape)", twin="(x.exp(), [8, 16])"),
    "data type beside": Case("(x.exp(), x.dtype)", "(x.exp(), torch.float16)"),
    "empty containers beside": Case("(x.exp(), [], {}, ())", "(x.exp(), [0], {}, ())"),
    "hundreds": Case(
        "[x[i // 16, i % 16] * 2 for i in range(128)] * 4", "[x[i // 16, i % 16] * 2 for i in range(128)] * 4 + [x * 1]"
    ),
    "the same twice": Case("(lambda y: (y, y))(x.exp())", "(x.exp(), x * 1)", twin="(x.exp(), x.exp())"),
    "views of one": Case(
        "(lambda y: (y[:4], y.t()))(x.exp())", "(x.exp()[4:], x.exp().t())", twin="(x[:4].exp(), x.t().exp())"
    ),
}
NUMBERS = {
    "a loss as a number": Case("(x.exp(), x.square().mean().item())", "(x.exp(), x.square().mean().item() * 1.001)"),
    "a small one": Case("(x.exp(), x.mean().item() * 1e-9)", "(x.exp(), 0.0)"),
    "only a number": Case("x.square().mean().item()", "x.abs().mean().item()"),
    "a constant": Case("(x.exp(), 0.5)", "(x.exp(), 0.6)"),
    "not finite": Case("(x.exp(), float('nan'), float('inf'))", "(x.exp(), float('nan'), 1.0)"),
    "in a dictionary": Case("{'y': x.exp(), 'loss': x.mean().item()}", "{'y': x.exp(), 'loss': -x.mean().item()}"),
    "a number is no tensor": Case("(x.exp(), x.mean().item())", "(x.exp(), x.mean())"),
    "a number is no integer": Case("(x.exp(), 1.0)", "(x.exp(), 1)"),
    "a complex one": Case(
        "(x.abs(), x.sum().item())", "(x.abs(), x.sum().conj().item())", "[torch.randn(9, dtype=torch.complex64)]"
    ),
}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = {
    **{
        f"{name} in and out": Case(
            f"(x.long() * 2 + 1).to(torch.{name})",
            f"(x.long() * 2 + (x.long() == 7)).to(torch.{name})",
            f"[torch.randint(0, 60, (99,)).to(torch.{name})]",
        )
        for name in INTEGERS
    },
    "booleans": Case("x ^ y", "x | y", "[torch.rand(99) > 0.5, torch.rand(99) > 0.5]", "self, x, y"),
    "half": Case("x.exp()", "x.exp() * 1.02", "[torch.randn(99).half()]"),
    "bfloat16": Case("x.exp()", "x.exp() * 1.1", "[torch.randn(99).bfloat16()]"),
    "double": Case("x.exp()", "x.float().exp().double()", "[torch.randn(99).double()]"),
    "double in place": Case("x.mul_(2).sum(-1)", "x.mul_(2).sum(-1) + 1e-6", "[torch.randn(8, 16).double()]"),
    "complex64": Case("x.exp() * y", "x.exp() * y.conj()", "[torch.randn(99, dtype=torch.cfloat) for _ in '12']", "self, x, y"),
    "complex128": Case("x.exp()", "x.to(torch.cfloat).exp().to(x.dtype)", "[torch.randn(99, dtype=torch.cdouble)]"),
    "complex parameters": Case(
        "x @ self.w",
        "x @ self.w.conj()",
        "[torch.randn(8, 16, dtype=torch.cfloat)]",
        build="self.w = nn.Parameter(torch.randn(16, 4, dtype=torch.cfloat))",
    ),
    "real of complex": Case("torch.fft.rfft(x).abs()", "torch.fft.rfft(x).real"),
    "fp8 out": Case("x.to(fp8)", "(x * 1.5).to(fp8)"),
    "fp8 in": Case("x.float() * 2", "x.float() * 2.01", "[torch.randn(99).to(fp8)]"),
    "fp8 both, wide": Case(
        "x.to(torch.float8_e5m2)", "(x.float() * -1).to(torch.float8_e5m2)", "[torch.randn(99).to(torch.float8_e5m2)]"
    ),
    "fp8 product": Case(
        "(x.float() @ y.float()).to(fp8)",
        "(x.float() @ y.float().relu()).to(fp8)",
        "[torch.randn(8, 16).to(fp8), torch.randn(16, 8).to(fp8)]",
        "self, x, y",
    ),
    "no dimension": Case("x.sum()", "x.sum() * 1.01"),
    "no dimension in": Case("x * y", "x * y * 1.001", "[torch.randn(99), torch.randn(())]", "self, x, y"),
    "empty in": Case("torch.cat([x, y])", "torch.cat([x, y]) * 1.01", "[torch.randn(0, 16), torch.randn(8, 16)]", "self, x, y"),
    "empty out": Case("(x[:, :0], x[:, 4:4, None].expand(8, 0, 3), x + 1)", "(x[:, :0], x[:, 4:4], x + 1)"),
    "empty out, right": Case("(x.new_empty(3, 0, 2), x + 1)", "(x.new_empty(3, 0, 2), x + 1.01)"),
}
LAYOUTS = {
    "channels last in": Case(
        "x * 2", "x * 2.001", "[torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)]", twin="(x + x).contiguous()"
    ),
    "channels last is seen": Case(
        "x + float(x.is_contiguous(memory_format=torch.channels_last))",
        "x * 1",
        "[torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)]",
    ),
    "transposed in": Case("x.exp()", "x.exp() * 1.001", "[torch.randn(16, 8).t()]"),
    "gaps in": Case("x.exp()", "x.exp() * 1.001", "[torch.randn(16, 8)[::2, 1::3]]"),
    "expanded in": Case("x * y", "x * y[0, 0]", "[torch.randn(8, 16), torch.randn(16).expand(8, 16)]", "self, x, y"),
    "conjugate in": Case("x * 2", "x.conj() * 2", "[torch.randn(9, dtype=torch.cfloat).conj()]"),
    "one storage": Case("x * y - z", "x * y", "(lambda s: [s[:9], s[9:], s[5:14]])(torch.randn(18))", "self, x, y, z"),
    "the same tensor twice": Case("x * y", "x * x", "(lambda s: [s, s])(torch.randn(99))", "self, x, y"),
    "a parameter in": Case("x * y", "x + y", "[torch.randn(9), nn.Parameter(torch.randn(9))]", "self, x, y"),
    "a subclass in": Case("x * 2", "x * 2.001", "[torch.randn(9).as_subclass(Labelled)]"),
    "transposed out": Case("x.exp().t()", "x.exp().t() * 1.001", twin="x.t().contiguous().exp()"),
    "gaps out": Case("x.exp()[:, ::2]", "x.exp()[:, 1::2]", twin="x[:, ::2].exp()"),
    "expanded out": Case("x.sum(0).expand(4, 16)", "x.mean(0).expand(4, 16)", twin="x.sum(0).expand(4, 16).contiguous()"),
    "view of the input": Case("x.view(16, 8)", "x.t().contiguous()", twin="x.clone().view(16, 8)"),
    "transposed input": Case("x.t()", "x.t() + 1e-3", twin="x.t().contiguous()"),
    "the input itself": Case("x", "x * 1.001", twin="x.clone()"),
    "slice of the input": Case("x[2:5], x + 1", "x[3:6], x + 1"),
    "conjugate out": Case("x.conj()", "x * 1", "[torch.randn(9, dtype=torch.cfloat)]", twin="x.conj().resolve_conj()"),
    "negative out": Case("x.conj().imag", "x.imag * 1", "[torch.randn(9, dtype=torch.cfloat)]", twin="0 - x.imag"),
    "a parameter out": Case(
        "(x * 2, self.w)",
        "(x * 2, self.w * 1.01)",
        build="self.w = nn.Parameter(torch.randn(9))",
        twin="(x * 2, self.w.detach() * 1)",
    ),
    "a subclass out": Case("x.exp().as_subclass(Labelled)", "x.exp().as_subclass(Labelled) * 1.01", twin="x.exp()"),
    "wants a gradient": Case("x * self.w", "x * 1", build="self.w = nn.Parameter(torch.randn(16))"),
}
GROUPS = {"calls": CALLS, "containers": CONTAINERS, "numbers": NUMBERS, "types": TYPES, "layouts": LAYOUTS}
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}
ALWAYS = (
    "keyword-only",
    "class of the task",
    "dictionary in another order",
    "dataclass with None",
    "a small one",
    "uint16",
    "fp8 out",
    "empty out",
)


def judged(judge: Judge, case: Case, output: str) -> Verdict:
    return judge.judge(case.task, case.candidate(output), quick=True, timed=False, **case.options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name.endswith(ALWAYS) else [pytest.mark.slow]) for name in CASES]
)
def test_a_copy_is_right_and_a_changed_copy_is_wrong(judge: Judge, name: str) -> None:
    case = CASES[name]
    for output in (case.output, case.twin) if case.twin else (case.output,):
        right = judged(judge, case, output)
        assert right.correct, f"{output}: {right.diagnosis}"
    wrong = judged(judge, case, case.wrong)
    assert wrong.outcome == "incorrect", wrong.diagnosis


MODEL_OUTPUT = """
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
"""
CLASSIFIER = Case(
    "SequenceClassifierOutput(logits=x @ x.t(), hidden_states=(x, x + 1))",
    "SequenceClassifierOutput(logits=x @ x.t(), hidden_states=(x, x + 1.01))",
    twin="{'logits': x @ x.t(), 'hidden_states': [x * 1, x + 1]}",
    head=MODEL_OUTPUT,
)


@pytest.mark.rotates
def test_the_outputs_of_a_transformers_model_are_told_by_their_keys(judge: Judge) -> None:
    for output in (CLASSIFIER.output, CLASSIFIER.twin):
        right = judged(judge, CLASSIFIER, output)
        assert right.correct, right.diagnosis
    assert judged(judge, CLASSIFIER, CLASSIFIER.wrong).outcome == "incorrect"
    missing = judged(judge, CLASSIFIER, "SequenceClassifierOutput(logits=x @ x.t())")
    assert missing.outcome == "incorrect"
    assert "hidden_states" in missing.diagnosis


TRANSFORMER = """
import torch
import torch.nn as nn
from transformers import BertConfig, BertModel

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, input_ids, attention_mask=None, *, output_hidden_states=False):
        return self.bert(input_ids, attention_mask=attention_mask, output_hidden_states=output_hidden_states)

def get_inputs():
    return {"input_ids": torch.randint(0, 100, (2, 8)), "output_hidden_states": True}

def get_init_inputs():
    return [BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)]
"""


@pytest.mark.slow
def test_a_transformers_model_is_judged(judge: Judge) -> None:
    task = Task(TRANSFORMER, name="bert", origin="folder/bert.py")
    source = TRANSFORMER.replace("class Model(", "class ModelNew(")
    right = judge.judge(task, candidate_from(source), quick=True, timed=False, training=False)
    assert right.correct, right.diagnosis
    changed = source.replace("return self.bert(", "return self.bert(1 + 0 * ")
    wrong = judge.judge(task, candidate_from(changed), quick=True, timed=False, training=False)
    assert wrong.outcome == "incorrect", wrong.diagnosis


SPARSE_BUFFER = "self.register_buffer('a', (torch.rand(8, 8) > 0.5).float().to_sparse())"
STATES = {
    "sparse buffer": Case("torch.sparse.mm(self.a, x)", "torch.sparse.mm(self.a, x) * 1.01", build=SPARSE_BUFFER),
    "fp8 parameter": Case(
        "x @ self.w.float()",
        "x @ self.w.float() * 1.01",
        build="self.w = nn.Parameter(torch.randn(16, 4).to(fp8), requires_grad=False)",
    ),
    "integer parameter": Case(
        "x * self.w", "x * (self.w + 1)", build="self.w = nn.Parameter(torch.arange(16), requires_grad=False)"
    ),
    "empty parameter": Case("x * 2 + self.w.sum()", "x * 2.01", build="self.w = nn.Parameter(torch.empty(0, 3))"),
    "parameter of no dimension": Case("x * self.w", "x * 2.0", build="self.w = nn.Parameter(torch.tensor(2.0))"),
    "tied parameters": Case(
        "self.b(self.a(x))",
        "self.a(self.a(x))",
        build="self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16); self.b.weight = self.a.weight",
    ),
    "lists of parameters": Case(
        "x * self.p[0] + self.d['k']",
        "x * self.p[0]",
        build="self.p = nn.ParameterList([torch.randn(16)]); self.d = nn.ParameterDict({'k': torch.randn(16)})",
    ),
    "a buffer that is not saved": Case(
        "x * self.m", "x * 1", build="self.register_buffer('m', torch.rand(16), persistent=False)"
    ),
    "a parametrization": Case(
        "self.f(x)", "self.f(x) * 1.01", build="self.f = nn.utils.parametrizations.weight_norm(nn.Linear(16, 4))"
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place else []) for place, name in enumerate(STATES)]
)
def test_what_a_model_may_keep(judge: Judge, name: str) -> None:
    case = STATES[name]
    right, wrong = judged(judge, case, case.output), judged(judge, case, case.wrong)
    assert right.correct, right.diagnosis
    assert wrong.outcome == "incorrect", wrong.diagnosis


EXTRA = """
class Extra(nn.Module):
    def get_extra_state(self):
        return {"k": 2.0}

    def set_extra_state(self, state):
        pass
"""
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a sparse output": (Case("x.to_sparse()", ""), ["the model returns a sparse tensor", "to_dense()"]),
    "a compressed output": (Case("x.to_sparse_csr()", ""), ["the model returns a sparse tensor"]),
    "a nested output": (Case("torch.nested.nested_tensor([x[0], x[1, :3]])", ""), ["the model returns a nested tensor", "pad"]),
    "a quantized output": (
        Case("torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)", ""),
        ["the model returns a quantized tensor", "dequantize()"],
    ),
    "a masked output": (Case("torch.masked.masked_tensor(x, x > 0)", ""), ["the model returns a MaskedTensor", "plain tensor"]),
    "an output without contents": (Case("x.to('meta')", ""), ["the model returns a tensor on the meta device"]),
    "half bytes": (
        Case("x.to(torch.uint8).view(torch.float4_e2m1fn_x2)", ""),
        ["the model returns a tensor of data type float4_e2m1fn_x2", "torch.uint8"],
    ),
    "an array": (Case("x.numpy()", ""), ["the model returns a value of type ndarray"]),
    "a set": (Case("(x, {1, 2})", ""), ["the model returns a value of type set"]),
    "a tensor for a key": (Case("{x: 1}", ""), ["the model returns a dictionary with a key of type Tensor"]),
    "a sparse input": (Case("x.to_dense()", "", "[torch.randn(8, 8).to_sparse()]"), ["get_inputs() returns a sparse tensor"]),
    "a dataclass input": (Case("x.first", "", "[Fields(torch.randn(9))]"), ["get_inputs() returns a dataclass", "dictionary"]),
    "an array for an input": (
        Case("torch.from_numpy(x)", "", "[torch.randn(9).numpy()]"),
        ["get_inputs() returns a value of type ndarray"],
    ),
    "a lazy layer": (
        Case("self.f(x)", "", build="self.f = nn.LazyLinear(4)"),
        ["f.weight has no shape before the first call", "sizes are given"],
    ),
    "more state than tensors": (
        Case("x * 2", "", head=EXTRA, build="self.e = Extra()"),
        ["the state of Model holds more than tensors: e._extra_state is a dict"],
    ),
    "an unknown name": (Case("x", "", "{'x': torch.randn(9), 'z': 1}", "self, x, y=None"), ["unexpected keyword argument 'z'"]),
    "a lambda for the constructor": (Case("x", "", init="[lambda: 1]"), ["get_init_inputs() returns what cannot be sent"]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place % 4 else []) for place, name in enumerate(REFUSED)]
)
def test_what_cannot_be_judged_is_refused_in_one_sentence(judge: Judge, name: str) -> None:
    case, words = REFUSED[name]
    verdict = judged(judge, case, "x")
    assert verdict.outcome == "invalid_task", verdict.diagnosis
    assert "\n" not in verdict.diagnosis
    assert len(verdict.diagnosis) < 300
    for word in words:
        assert word in verdict.diagnosis


def test_a_candidate_without_the_class_of_its_arguments_is_told_so(judge: Judge) -> None:
    case = CALLS["constructor with a class of the task"]
    source = case.source("ModelNew", case.output).replace("class Config:", "class Configuration:")
    verdict = judge.judge(case.task, candidate_from(source), quick=True, timed=False)
    assert not verdict.correct
    assert "defines no Config" in verdict.diagnosis


@pytest.mark.parametrize("name", ["types: fp8 in", "types: uint16 in and out", "types: complex64", "calls: keyword-only"])
def test_fitness_can_look_at_it(judge: Judge, name: str) -> None:
    found = judge.fitness(CASES[name].task)
    assert {problem["name"] for problem in found["problems"]} <= {"launch_bound"}, found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["calls: keyword-only", "numbers: a small one", "types: fp8 out", "types: uint64 in and out", "types: empty out"]
)
def test_timed_calls_are_looked_at_too(judge: Judge, name: str) -> None:
    case = CASES[name]
    right = judge.judge(case.task, case.candidate(case.output), quick=True)
    assert right.correct, right.diagnosis
    late = f"({case.output} if self.__dict__.setdefault('n', [0]).append(0) or len(self.n) < 5 else {case.wrong})"
    wrong = judge.judge(case.task, case.candidate(late), quick=True)
    assert not wrong.correct, wrong.diagnosis
