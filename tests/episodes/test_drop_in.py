"""The module around a kernel: when the kernel runs, when the original does, that both share one set of parameters, and what is refused.

The "kernels" here are plain torch with a mark in their answers, so that a test sees who answered. `probe.describe` gives the facts as it does
in the sandbox; here it runs in the test's own process, on the test's own modules.
"""

from __future__ import annotations

import copy
import pickle
import sys
import types
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from bottega.episodes.delivery.optimized_file import delivered, facts_of
from bottega.episodes.delivery.probe import describe, try_out
from bottega.languages import candidate_from

MARK = 1e-4
"""What the kernel adds to the right answer, so that a test can tell who answered."""

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.dim, self.eps = dim, eps
        self.linear = nn.Linear(dim, dim)
        self.register_buffer("shift", torch.zeros(dim))

    def forward(self, x, scale):
        return (self.linear(x) + self.shift) * scale

def get_inputs():
    return [torch.randn(4, 16), 2.0]

def get_init_inputs():
    return [16]
"""
KERNEL = (
    TASK.partition("def get_inputs")[0]
    .replace("class Model", "class ModelNew")
    .replace("return (self.linear(x) + self.shift) * scale", f"return (self.linear(x) + self.shift) * scale + {MARK}")
)


class Special(torch.Tensor):
    """Whatever it stands for, the kernel was not judged on it."""


def made(
    kernel: str = KERNEL, task: str = TASK, training: bool | None = None, precision: str = "fp32", device: str = "cpu"
) -> tuple[Any, Any]:
    """The delivered module and the task's, each imported from its text."""
    arguments = {"source": task, "device": device, "training": training, "precision": precision}
    facts = facts_of(describe(arguments), device, precision)
    return imported(delivered(candidate_from(kernel), facts, "Model").text, "optimized"), imported(task, "original")


def imported(text: str, name: str) -> Any:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


@pytest.fixture
def pair() -> tuple[Any, Any]:
    optimized, task = made()
    original = task.Model(16)
    return optimized.load(original), original


def who(module: Any, original: Any, *arguments: Any) -> str:
    answer, expected = module(*arguments), original(*arguments)
    torch.testing.assert_close(answer, expected, atol=2 * MARK, rtol=1e-4)
    return "original" if torch.equal(answer, expected) else "kernel"


def inputs(rows: int = 4) -> tuple[torch.Tensor, float]:
    return torch.randn(rows, 16), 2.0


@torch.no_grad()
def test_the_kernel_runs_on_what_it_was_judged_on(pair: tuple[Any, Any]) -> None:
    module, original = pair
    assert who(module, original, *inputs()) == "kernel"
    assert module.calls == 1 and not module.fallbacks


@torch.no_grad()
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (inputs(3), "shape (3, 16) where (4, 16) was"),
        ((torch.randn(16, 4).t(), 2.0), "another memory layout"),
        ((torch.randn(65)[1:].view(4, 16), 2.0), "not aligned"),
        ((torch.randn(4, 16), 3.0), "3.0 where 2.0 was"),
        ((torch.randn(4, 16), 2), "2 where 2.0 was"),
        ((torch.randn(4, 16).as_subclass(Special), 2.0), "a Special where a tensor was"),
    ],
)
def test_the_original_runs_on_everything_else(pair: tuple[Any, Any], arguments: Any, reason: str) -> None:
    module, original = pair
    assert who(module, original, *arguments) == "original"
    assert any(reason in told for told in module.fallbacks), module.fallbacks
    assert module.calls == 0


@torch.no_grad()
def test_keywords_numbers_of_arguments_autocast_and_hooks_fall_back(pair: tuple[Any, Any]) -> None:
    module, original = pair
    x, _ = inputs()
    for wrong in ({"scale": 2.0, "other": 1}, {}):
        with pytest.raises(TypeError):
            module(x, **wrong)
    with torch.autocast("cpu", torch.bfloat16):
        assert who(module, original, x, 2.0) == "original"
    handle = original.register_forward_hook(lambda *_: None)
    assert who(module, original, x, 2.0) == "original"
    handle.remove()
    assert who(module, original, x, 2.0) == "kernel"
    assert set(module.fallbacks) == {"keyword arguments", "other arguments", "autocast is on", "the original has hooks"}


@torch.no_grad()
def test_keywords_and_defaults_find_their_places() -> None:
    optimized, task = made(
        *(text.replace("def forward(self, x, scale)", "def forward(self, x, scale=2.0)") for text in (KERNEL, TASK))
    )
    original = task.Model(16)
    module = optimized.load(original)
    x, _ = inputs()
    for call in (lambda each: each(x), lambda each: each(x, scale=2.0), lambda each: each(scale=2.0, x=x)):
        assert not torch.equal(call(module), call(original))
    assert module.calls == 3 and not module.fallbacks
    assert torch.equal(module(x=x, scale=3.0), original(x, 3.0))
    assert list(module.fallbacks) == ["3.0 where 2.0 was"]


@torch.no_grad()
def test_what_is_changed_besides_the_weights_is_not_overlooked(pair: tuple[Any, Any]) -> None:
    module, original = pair
    call = inputs()
    seen: list[int] = []
    handle = original.linear.register_forward_hook(lambda *_: seen.append(1))
    module(*call)
    assert seen, "a hook of a part was not heard"
    handle.remove()
    assert who(module, original, *call) == "kernel"
    module.eps = 0.5  # as its user would, on the module that stands in for it
    assert original.eps == 0.5 and who(module, original, *call) == "original"
    original.eps = 1e-5
    assert who(module, original, *call) == "kernel"
    original.linear = nn.Linear(16, 16)
    assert who(module, original, *call) == "original"
    assert who(copy.deepcopy(module), original, *call) == "kernel", "a copy is built of the parts as they are"
    told = {
        "a part of it has hooks",
        "eps was changed after the module was loaded",
        "linear was changed after the module was loaded",
    }
    assert set(module.fallbacks) == told


def test_gradients_are_the_originals(pair: tuple[Any, Any]) -> None:
    module, original = pair
    x, scale = inputs()
    module(x, scale).sum().backward()
    assert original.linear.weight.grad is not None
    assert module.calls == 0
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    module(x, scale)
    assert module.calls == 1
    module(x.requires_grad_(), scale)
    assert module.calls == 1
    with torch.inference_mode():
        module(x, scale)
    assert module.calls == 2


@torch.no_grad()
def test_updates_of_the_weights_are_seen_whichever_way_they_come(pair: tuple[Any, Any]) -> None:
    module, original = pair
    changes = [
        lambda: original.linear.weight.mul_(2),
        lambda: module.linear.bias.add_(1),
        lambda: original.load_state_dict({name: torch.randn_like(value) for name, value in original.state_dict().items()}),
        lambda: module.load_state_dict({name: torch.randn_like(value) for name, value in original.state_dict().items()}),
        lambda: setattr(original.linear, "weight", nn.Parameter(torch.randn(16, 16))),
        lambda: setattr(original.linear.weight, "data", torch.randn(16, 16)),
        lambda: original.shift.fill_(3),
    ]
    for change in changes:
        change()
        assert who(module, original, *inputs()) == "kernel"
    assert module.calls == len(changes)


@torch.no_grad()
def test_a_kernel_that_keeps_something_of_its_weights_is_built_anew_after_an_update() -> None:
    first_time = "        if not hasattr(self, 'kept'):\n            self.kept = self.linear.weight.clone()\n"
    keeping = KERNEL.replace(
        "        return (self.linear(x)", first_time + "        return (x @ self.kept.t() + self.linear.bias"
    )
    optimized, task = made(keeping)
    original = task.Model(16)
    module = optimized.load(original)
    assert who(module, original, *inputs()) == "kernel"
    original.linear.weight.mul_(2)
    assert who(module, original, *inputs()) == "kernel"
    original.linear.weight.data.mul_(2)  # leaves no trace
    module.refresh()
    assert who(module, original, *inputs()) == "kernel"


@torch.no_grad()
def test_names_parameters_and_checkpoints_are_the_originals(pair: tuple[Any, Any]) -> None:
    module, original = pair
    assert list(module.state_dict()) == list(original.state_dict()) == ["shift", "linear.weight", "linear.bias"]
    assert [name for name, _ in module.named_parameters()] == ["linear.weight", "linear.bias"]
    assert module.linear is original.linear and module.eps == 1e-5
    outer = nn.Sequential(module)
    assert list(outer.state_dict()) == ["0.shift", "0.linear.weight", "0.linear.bias"]
    outer.load_state_dict({name: torch.ones_like(value) for name, value in outer.state_dict().items()})
    assert bool((original.linear.weight == 1).all())
    assert module.eval().training is original.training is False


@torch.no_grad()
def test_copies_and_pickles_have_parameters_of_their_own(pair: tuple[Any, Any]) -> None:
    module, original = pair
    module(*inputs())
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), copy.deepcopy(nn.Sequential(module))[0]):
        assert other.original is not original
        assert other.linear.weight is other.original.linear.weight is not original.linear.weight
        other.linear.weight.zero_()
        assert who(other, other.original, *inputs()) == "kernel"
    assert who(module, original, *inputs()) == "kernel"


@torch.no_grad()
def test_a_module_that_is_moved_to_another_type_falls_back_and_comes_back(pair: tuple[Any, Any]) -> None:
    module, original = pair
    module.double()
    x = torch.randn(4, 16, dtype=torch.float64)
    assert who(module, original, x, 2.0) == "original"
    assert who(module.to(torch.bfloat16), original, x.bfloat16(), 2.0) == "original"
    module.float()
    assert who(module, original, *inputs()) == "kernel"
    original.linear.weight.data = torch.randn(16, 16).t()
    assert who(module, original, *inputs()) == "original"
    assert "parameter linear.weight has another memory layout" in module.fallbacks


@pytest.mark.rotates
@torch.no_grad()
def test_compiled_code_calls_the_kernel_and_traced_code_the_original(pair: tuple[Any, Any]) -> None:
    module, original = pair
    x, scale = inputs()
    compiled = torch.compile(nn.Sequential(Doubled(), Scaled(module)), backend="aot_eager", fullgraph=True)
    assert who(compiled, lambda x: 2 * original(2 * x, scale), x) == "kernel" and module.calls == 1
    assert who(compiled, lambda x: 2 * original(2 * x, scale), torch.randn(3, 16)) == "original"
    module.linear.weight.zero_()
    assert who(compiled, lambda x: 2 * original(2 * x, scale), x) == "kernel"
    with torch.enable_grad():
        assert who(compiled, lambda x: 2 * original(2 * x, scale), x) == "original"
    assert torch.equal(torch.vmap(lambda row: module(row, scale))(x.view(1, 4, 16))[0], original(x, scale))


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class Scaled(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.inner(x, 2.0)  # type: ignore[no-any-return]


def test_a_warning_comes_once_and_reasons_are_counted_within_bounds() -> None:
    optimized, task = made()
    module = optimized.load(task.Model(16), warn=True)
    with warnings.catch_warnings(record=True) as told, torch.no_grad():
        warnings.simplefilter("always")
        for rows in (3, 3, 2):
            module(*inputs(rows))
    assert len(told) == 1 and "shape (3, 16)" in str(told[0].message)
    assert told[0].filename == __file__
    with torch.no_grad():
        for rows in range(5, 60):
            module(*inputs(rows))
    assert len(module.fallbacks) <= 33 and sum(module.fallbacks.values()) == 58


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


def test_parameters_of_other_names_are_refused_with_the_names() -> None:
    renamed = KERNEL.replace("self.linear", "self.project")
    optimized, task = made(renamed)
    with pytest.raises(ValueError, match=r"lacks linear\.bias, linear\.weight; adds project\.bias, project\.weight"):
        optimized.load(task.Model(16))
    told = try_out({**_arguments(), "delivered": _text(renamed), "load": "load"})
    assert told["problems"] == [] and "lacks linear.bias" in told["refused"]


@pytest.mark.parametrize("kept", ["self.view = self.linear.weight.t()", "self.all = [[self.linear.weight]]"])
def test_a_kernel_with_a_second_hold_on_its_parameters_is_refused(kept: str) -> None:
    holding = KERNEL.replace("        self.register_buffer", f"        {kept}\n        self.register_buffer")
    optimized, task = made(holding)
    with pytest.raises(ValueError, match="it would miss updates"):
        optimized.load(task.Model(16))


def test_modes_matter_where_the_module_has_them() -> None:
    with_modes = TASK.replace("self.register_buffer", "self.dropout = nn.Dropout(0.0)\n        self.register_buffer")
    optimized, task = made(
        with_modes.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), with_modes, training=False
    )
    original = task.Model(16)
    module = optimized.load(original)
    with torch.no_grad():
        module(*inputs())
        assert dict(module.fallbacks) == {"the module is in training mode": 1}
        module.eval()
        module(*inputs())
    assert module.calls == 1


def test_a_batch_norms_statistics_are_no_news_to_the_kernel_that_keeps_them() -> None:
    task = TASK.replace("nn.Linear(dim, dim)", "nn.BatchNorm1d(dim)")
    optimized, original_task = made(task.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), task)
    original = original_task.Model(16)
    module = optimized.load(original)
    with torch.no_grad():
        module(*inputs())
        first = module._kernel
        module(*inputs())
    assert module.calls == 2 and module._kernel is first
    assert int(original.linear.num_batches_tracked) == 2


def test_the_users_random_numbers_are_left_alone(pair: tuple[Any, Any]) -> None:
    optimized, task = made()
    original = task.Model(16)
    torch.manual_seed(1)
    expected = torch.randn(3)
    torch.manual_seed(1)
    optimized.load(original)
    assert torch.equal(torch.randn(3), expected)


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
    told = try_out({**_arguments(), "delivered": _text(forgetful), "load": "load"})
    assert any("answers are not the original's" in problem for problem in told["problems"])


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
                    "delivered": _delivered(kernel, OUTPUTS), "load": "load"})["problems"] == []  # fmt: skip


@torch.no_grad()
def test_a_bf16_module_may_differ_by_its_own_rounding_and_by_no_more() -> None:
    task = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return ((x * 1.7).exp() + x).tanh() * x\n"
    kernel = task.replace("class Model", "class ModelNew").replace("return (", "x = x.float()\n        return (")
    task += "\n\ndef get_inputs():\n    return [torch.randn(64, 64).bfloat16()]\n\n\ndef get_init_inputs():\n    return []\n"
    for change, right in (("* x\n", "* x).bfloat16()\n"), ("* x\n", "* x * 1.5).bfloat16()\n")):
        text = kernel.replace(change, right).replace("return (", "return ((")
        asked = {"source": task, "device": "cpu", "training": None, "precision": "fp32", "load": "load"}
        told = try_out({**asked, "delivered": _delivered(text, task)})
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


def _arguments() -> dict[str, Any]:
    return {"source": TASK, "device": "cpu", "training": None, "precision": "fp32"}


def _text(kernel: str) -> str:
    return _delivered(kernel, TASK)


def _delivered(kernel: str, task: str) -> str:
    facts = facts_of(describe({**_arguments(), "source": task}), "cpu", "fp32")
    return delivered(candidate_from(kernel), facts, "Model").text
