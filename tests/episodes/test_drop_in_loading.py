"""How a delivered module is loaded: what is refused, whose classes and arguments it has, and what trying it out finds."""

from __future__ import annotations

import pytest
import torch
from episodes.marked_kernel import ARGUMENTS, KERNEL, MARK, TASK, delivered_text, made, who
from torch import nn

from bottega.episodes.delivery.probe import try_out


def test_a_module_that_was_built_otherwise_is_refused() -> None:
    optimized, task = made()
    with pytest.raises(ValueError, match=r"eps is 0.1, and was 1e-05"):
        optimized.load(task.Model(16, 0.1))
    with pytest.raises(ValueError, match=r"dim is 8, and was 16"):
        optimized.load(task.Model(8))
    with pytest.raises(ValueError, match="is a Linear, and was a Model"):
        optimized.load(nn.Linear(16, 16))
    with pytest.raises(TypeError, match="an instance"):
        optimized.load(task.Model)
    assert optimized.load(task.Model(16, 0.1), ignore=("eps",)).calls == 0


@pytest.mark.parametrize(
    ("line", "use", "made_for", "given"),
    [
        ("self.act = how", "self.act(x)", "torch.relu", "torch.tanh"),
        ("self.act = lambda x: x * how", "self.act(x)", "2.0", "3.0"),
        ("self.act = functools.partial(torch.mul, torch.tensor(how))", "self.act(x)", "2.0", "3.0"),
        ("self.config = {'gain': how}", "x * self.config['gain']", "2.0", "3.0"),
        ("self.config = types.SimpleNamespace(gain=how)", "x * self.config.gain", "2.0", "3.0"),
        ("self._gain = how", "x * self._gain", "2.0", "3.0"),
        ("self.gains = [1.0] * 99 + [how]", "x * self.gains[-1]", "2.0", "3.0"),
        ("self.gain = torch.tensor(how)", "x * self.gain", "2.0", "3.0"),
        ("self.register_buffer('gain', torch.tensor(how), persistent=False)", "x * self.gain", "2.0", "3.0"),
    ],
    ids=lambda text: text if " = " in text or "buffer" in text else "",
)
def test_another_attribute_of_whatever_kind_is_refused(line: str, use: str, made_for: str, given: str) -> None:
    task = TASK.replace("import torch\n", "import functools, types, torch\n", 1)
    task = task.replace("dim, eps=1e-5)", "dim, how=None, eps=1e-5)").replace("dim, eps\n", f"dim, eps\n        {line}\n")
    task = task.replace("return (self.linear(x)", f"x = self.linear(x)\n        return ({use}")
    task = task.replace("return [16]", f"return [16, {made_for}]")
    optimized, original_task = made(task.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), task)
    assert optimized.load(original_task.Model(16, eval(made_for))).calls == 0
    with pytest.raises(ValueError, match="was made for another Model"):
        optimized.load(original_task.Model(16, eval(given)))


def test_parameters_of_other_names_are_refused_with_the_names() -> None:
    renamed = KERNEL.replace("self.linear", "self.project")
    optimized, task = made(renamed)
    with pytest.raises(ValueError, match=r"lacks linear\.bias, linear\.weight; adds project\.bias, project\.weight"):
        optimized.load(task.Model(16))
    told = try_out({**ARGUMENTS, "delivered": delivered_text(renamed), "load": "load"})
    assert told["problems"] == [] and "lacks linear.bias" in told["refused"]


@pytest.mark.parametrize("kept", ["self.view = self.linear.weight.t()", "self.all = [[self.linear.weight]]"])
def test_a_kernel_with_a_second_hold_on_its_parameters_is_refused(kept: str) -> None:
    holding = KERNEL.replace("        self.register_buffer", f"        {kept}\n        self.register_buffer")
    optimized, task = made(holding)
    with pytest.raises(ValueError, match="it would miss updates"):
        optimized.load(task.Model(16))


def test_names_of_the_kernels_own_are_not_taken() -> None:
    taken = KERNEL + "\ndef load(x):\n    return x\n\nOptimized = load(3)\n"
    optimized, task = made(taken)
    assert optimized.load(5) == 5 and optimized.Optimized == 3
    assert optimized.load_module(task.Model(16)).calls == 0


def test_a_kernel_that_starts_with_a_future_import_stays_a_file() -> None:
    optimized, task = made('"""Doc."""\nfrom __future__ import annotations\n' + KERNEL)
    assert optimized.__doc__ == "Doc." and optimized.load(task.Model(16))


def test_a_file_without_the_class_is_refused() -> None:
    with pytest.raises(ValueError, match="ModelNew"):
        made("x = 1\n")


def test_trying_out_finds_a_kernel_that_forgets_the_weights() -> None:
    built = "        self.linear = nn.Linear(dim, dim)"
    forgetful = KERNEL.replace(built, f"{built}\n        global WEIGHT\n        WEIGHT = self.linear.weight")
    forgetful = forgetful.replace("return (self.linear(x) + self.shift)", "return (x @ WEIGHT.t())")
    told = try_out({**ARGUMENTS, "delivered": delivered_text(forgetful), "load": "load"})
    assert any("answers are not the original's" in problem for problem in told["problems"])


def test_trying_out_finds_a_kernel_that_leaves_buffers_as_they_were() -> None:
    task = TASK.replace("nn.Linear(dim, dim)", "nn.BatchNorm1d(dim)")
    kernel = task.partition("def get_inputs")[0].replace("class Model", "class ModelNew")
    kept = kernel.replace("self.linear(x)", "nn.functional.batch_norm(x, None, None, *self.linear.parameters(), True)")
    for text, problem in ((kernel, False), (kept, True)):
        told = try_out({**ARGUMENTS, "source": task, "delivered": delivered_text(text, task), "load": "load"})
        assert any("running_mean" in each for each in told["problems"]) is problem, told


def test_constructor_arguments_that_are_no_literals_are_carried_along_or_asked_for() -> None:
    task = TASK.replace("return [16]", "return [Size(16)]").replace(
        "self.dim, self.eps = dim, eps", "dim = dim.n; self.eps = eps"
    )
    task = task.replace("class Model", "class Size:\n    def __init__(self, n):\n        self.n = n\n\nclass Model")
    kernel = task.partition("def get_inputs")[0].replace("class Model", "class ModelNew")
    optimized, original_task = made(kernel, task)
    assert optimized.load(original_task.Model(original_task.Size(16))).calls == 0
    task, kernel = (text.replace("self.n = n", "self.n = n; self.f = lambda: n") for text in (task, kernel))
    optimized, original_task = made(kernel, task)
    original = original_task.Model(original_task.Size(16))
    with pytest.raises(ValueError, match=r"give init=\[…\]"):
        optimized.load(original)
    assert optimized.load(original, init=[optimized.Size(16)]).calls == 0


OUTPUTS = """
import collections, dataclasses, torch
from torch import nn

Pair = collections.namedtuple("Pair", "first second")

@dataclasses.dataclass
class Out:
    hidden: torch.Tensor
    more: dict

class Model(nn.Module):
    def forward(self, x, *, scale, bias=None):
        y = x * scale
        return Out(hidden=y, more={"pair": Pair(y + 1, [y - 1])})

def get_inputs():
    return [[torch.randn(4, 16)], {"scale": torch.randn(4, 16)}]

def get_init_inputs():
    return []
"""


@torch.no_grad()
def test_a_result_is_of_the_originals_classes_and_keywords_are_passed_on() -> None:
    kernel = (
        OUTPUTS.partition("def get_inputs")[0]
        .replace("class Model", "class ModelNew")
        .replace("x * scale", f"x * scale + {MARK}")
    )
    kernel = kernel.replace("Out(hidden=y, more=", "dict(more=").replace("Pair(y + 1, [y - 1])}", "(y + 1, [y - 1])}, hidden=y")
    optimized, task = made(kernel, OUTPUTS)
    original = task.Model()
    module = optimized.load(original)
    x, scale = torch.randn(4, 16), torch.randn(4, 16)
    for called in (module, torch.compile(module, backend="aot_eager", fullgraph=True)):
        got, expected = called(x, scale=scale), original(x, scale=scale)
        assert type(got) is task.Out and type(got.more["pair"]) is task.Pair
        torch.testing.assert_close(got.hidden, expected.hidden + MARK)
        torch.testing.assert_close(got.more["pair"].second[0], expected.more["pair"].second[0] + MARK)
    assert module.calls == 2 and not module.fallbacks
    assert try_out({"source": OUTPUTS, "device": "cpu", "training": None, "precision": "fp32",
                    "delivered": delivered_text(kernel, OUTPUTS), "load": "load"})["problems"] == []  # fmt: skip


@torch.no_grad()
def test_a_bf16_module_may_differ_by_its_own_rounding_and_by_no_more() -> None:
    task = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return ((x * 1.7).exp() + x).tanh() * x\n"
    kernel = task.replace("class Model", "class ModelNew").replace("return (", "x = x.float()\n        return (")
    task += "\n\ndef get_inputs():\n    return [torch.randn(64, 64).bfloat16()]\n\n\ndef get_init_inputs():\n    return []\n"
    for change, right in (("* x\n", "* x).bfloat16()\n"), ("* x\n", "* x * 1.5).bfloat16()\n")):
        text = kernel.replace(change, right).replace("return (", "return ((")
        asked = {"source": task, "device": "cpu", "training": None, "precision": "fp32", "load": "load"}
        told = try_out({**asked, "delivered": delivered_text(text, task)})
        assert bool(told["problems"]) is ("1.5" in right), told


@torch.no_grad()
def test_a_function_is_loaded_as_it_is() -> None:
    task = "import torch\n\ndef scaled(x, by=2.0):\n    return x * by\n\n\nclass Model(torch.nn.Module):\n"
    task += "    def forward(self, x, by=2.0):\n        return scaled(x, by)\n"
    kernel = task.replace("class Model", "class ModelNew").replace("x * by", f"x * by + {MARK}")
    task += "\n\ndef get_inputs():\n    return [torch.randn(8)]\n\n\ndef get_init_inputs():\n    return []\n"
    optimized, original = made(kernel, task)
    module = optimized.load(original.scaled)
    assert who(module, original.scaled, torch.randn(8)) == "kernel"
    assert who(module, original.scaled, torch.randn(9)) == "original"
