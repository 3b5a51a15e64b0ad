"""A module that is no longer the judged one, in ways that leave its weights as they were: the original answers, or `load` refuses."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from episodes.marked_kernel import KERNEL, TASK, delivered_text, imported, inputs, made, who
from torch import nn
from torch.overrides import TorchFunctionMode

ATTRIBUTES = "self.dim, self.eps = dim, eps"
ANSWER = "(self.linear(x) + self.shift) * scale"


def with_attribute(line: str, factor: str) -> str:
    return TASK.replace(ATTRIBUTES, f"{ATTRIBUTES}\n        {line}").replace("* scale", f"* scale * {factor}")


FUNCTIONS = (
    TASK.replace(
        "class Model", "GAIN = 1.0\nTABLE = torch.ones(16)\n\ndef gained(y):\n    return y * GAIN * TABLE\n\nclass Model"
    )
    .replace(f"return {ANSWER}", f"return self.last(gained({ANSWER}))")
    .replace("    def forward", "    def last(self, y):\n        return y\n\n    def forward")
)
CONFIGURED = with_attribute("self.config = Config()", "self.config.gain").replace(
    "class Model", "class Config:\n    gain = 0.0\n    def __init__(self):\n        self.gain = 1.0\n\nclass Model"
)
ACTIVATED = TASK.replace("* scale", "* scale + 0 * self.act(x)").replace(
    ATTRIBUTES, f"{ATTRIBUTES}\n        self.act = nn.ReLU()"
)
MASKED = TASK.replace(
    'self.register_buffer("shift", torch.zeros(dim))',
    'self.register_buffer("shift", torch.zeros(dim))\n'
    '        self.register_buffer("mask", torch.ones(512, 512), persistent=False)',
).replace("* scale", "* scale * self.mask[0, 1]")
TIED = TASK.replace(
    "self.linear = nn.Linear(dim, dim)",
    "self.linear = nn.Linear(dim, dim)\n        self.other = nn.Linear(dim, dim)\n        self.other.weight = self.linear.weight",
).replace("self.linear(x)", "self.other(self.linear(x))")
CHANGES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    (FUNCTIONS, lambda original, file: setattr(original, "last", lambda y: 3 * y)),
    (FUNCTIONS, lambda original, file: setattr(file.Model, "last", lambda self, y: 3 * y)),
    (FUNCTIONS, lambda original, file: setattr(file, "gained", lambda y: 3 * y)),
    (FUNCTIONS, lambda original, file: setattr(file, "GAIN", 3.0)),
    (FUNCTIONS, lambda original, file: file.TABLE.mul_(3)),
    (TASK, lambda original, file: setattr(file.Model, "forward", lambda self, x, scale: 3 * x)),
    (CONFIGURED, lambda original, file: setattr(original.config, "gain", 3.0)),
    (with_attribute("self.gains = [[1.0], 2]", "self.gains[0][0]"), lambda original, file: original.gains[0].insert(0, 3.0)),
    (with_attribute("self.gains = {1, 2}", "len(self.gains)"), lambda original, file: original.gains.add(3)),
    (
        with_attribute("self.one = 1", "torch.tensor(self.one).dtype.itemsize"),
        lambda original, file: setattr(original, "one", 1.0),
    ),
    (ACTIVATED, lambda original, file: setattr(original.act, "__class__", nn.Tanh)),
    (MASKED, lambda original, file: original.mask[0, 1].zero_()),
    (TIED, lambda original, file: setattr(original.other, "weight", nn.Parameter(torch.randn(16, 16)))),
]


def kernel_of(task: str) -> str:
    """The task's own answers with a mark, from code of their own."""
    own = task.partition("def get_inputs")[0].replace("class Model", "class ModelNew")
    return own.replace("return ", "return 1e-4 + ") if task is not FUNCTIONS else KERNEL


@torch.no_grad()
@pytest.mark.parametrize(("task", "change"), CHANGES)
def test_what_was_replaced_or_changed_is_noticed(task: str, change: Callable[[Any, Any], Any]) -> None:
    optimized, file = made(kernel_of(task), task)
    original = file.Model(16)
    module = optimized.load(original)
    assert who(module, original, *inputs()) == "kernel"
    change(original, file)
    assert who(module, original, *inputs()) == "original"
    assert who(copy.deepcopy(module), original, *inputs()) == "original"


@torch.no_grad()
def test_a_forward_of_torchs_that_was_replaced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    optimized, file = made()
    original = file.Model(16)
    module = optimized.load(original)
    assert who(module, original, *inputs()) == "kernel"
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: 3 * x)
    assert who(module, original, *inputs()) == "original"


@pytest.mark.parametrize(
    ("task", "before", "after"),
    [
        (TASK, "* scale", "* scale - 1"),
        (FUNCTIONS, "GAIN = 1.0", "GAIN = 3.0"),
        (FUNCTIONS, "y * GAIN", "y / GAIN"),
        (FUNCTIONS, "        return y", "        return -y"),
        (with_attribute("self.act = lambda y: y", "self.act(1)"), "lambda y: y", "lambda y: 3 * y"),
        (with_attribute("self.steps = range(1)", "len(self.steps)"), "range(1)", "range(3)"),
    ],
)
def test_another_version_of_the_file_is_refused(task: str, before: str, after: str) -> None:
    optimized, _ = made(KERNEL, task)
    edited = imported(task.replace(before, after), "edited")
    with pytest.raises(ValueError, match="was made for another Model"):
        optimized.load(edited.Model(16))
    optimized.load(edited.Model(16), ignore=("its code", "steps"))
    other = task.replace("class Model", "linear = 3  # a variable that no method reads\n\nclass Model")
    optimized.load(imported(other.replace("    def forward", "    # as it was\n    def forward"), "edited").Model(16))


def test_arrays_and_ties_that_differ_are_refused() -> None:
    task = with_attribute("self.row = np.ones(16, dtype=np.float32)", "torch.from_numpy(self.row)")
    optimized, file = made(KERNEL, task.replace("import torch\n", "import torch\nimport numpy as np\n", 1))
    original = file.Model(16)
    optimized.load(original)
    original.row = np.full(16, 3, dtype=np.float32)
    with pytest.raises(ValueError, match="row is array"):
        optimized.load(original)
    optimized, file = made(kernel_of(TIED), TIED)
    original = file.Model(16)
    original.other.weight = nn.Parameter(torch.randn(16, 16))
    with pytest.raises(ValueError, match="are two, and were one tensor"):
        optimized.load(original)


@torch.no_grad()
@pytest.mark.parametrize("change", [lambda data: data.mul_(3), lambda data: data.add_(1)])
def test_weights_that_change_through_data_reach_a_kernel_that_packed_them(change: Callable[[Any], Any]) -> None:
    answer = "self.linear(x)"
    packing = KERNEL.replace(answer, "nn.functional.linear(x, self.packed, self.linear.bias)").replace(
        "        return (",
        '        if not hasattr(self, "packed"):\n            self.packed = self.linear.weight.detach().clone()\n        return (',
    )
    optimized, file = made(packing)
    original = file.Model(16)
    module = optimized.load(original)
    assert who(module, original, *inputs()) == "kernel"
    change(original.linear.weight.data)
    assert who(module, original, *inputs()) == "kernel"
    values = original.linear.weight.detach() * 2
    original.linear.weight.data = torch.empty(0)
    original.linear.weight.data = values  # perhaps where the old ones lay
    assert who(module, original, *inputs()) == "kernel"


class Doubled(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        answer = function(*arguments, **(options or {}))
        return 2 * answer if function is nn.functional.linear else answer


@torch.no_grad()
def test_what_all_of_torch_is_told_reaches_the_original() -> None:
    own = KERNEL.replace("self.linear(x)", "(x @ self.linear.weight.t() + self.linear.bias)")  # no call that anybody listens to
    optimized, file = made(own)
    original = file.Model(16)
    module, call = optimized.load(original), inputs()
    with Doubled():
        assert who(module, original, *call) == "original"
    handle = nn.modules.module.register_module_forward_hook(lambda part, given, answer: 2 * answer)
    try:
        assert torch.equal(module(*call), 2 * original(*call))  # it is a module, too
    finally:
        handle.remove()
    torch.use_deterministic_algorithms(True)
    try:
        assert who(module, original, *call) == "original"
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.device("cpu"):
        assert who(module, original, *call) == "kernel"
    with torch.device("meta"):
        assert who(module, original, *call) == "original"


@torch.no_grad()
def test_zeros_have_signs() -> None:
    sign = TASK.replace(", 2.0]", ", 0.0]").replace("* scale", "* torch.copysign(torch.ones(()), torch.tensor(scale))")
    optimized, file = made(kernel_of(sign), sign)
    original = file.Model(16)
    module, (x, _) = optimized.load(original), inputs()
    assert who(module, original, x, 0.0) == "kernel" and who(module, original, x, -0.0) == "original"


def test_a_tensor_of_its_own_that_wants_gradients_gets_them() -> None:
    task = with_attribute("self.gain = torch.ones(())", "self.gain")
    optimized, file = made(KERNEL, task)
    original = file.Model(16).requires_grad_(False)
    module = optimized.load(original)
    assert who(module, original, *inputs()) == "kernel"
    original.gain.requires_grad_(True)
    assert module(*inputs()).requires_grad


def test_a_kernel_with_memory_of_its_own_leaves_inference_mode() -> None:
    working = KERNEL.replace(
        "        return (",
        '        if not hasattr(self, "copied"):\n            self.copied = torch.empty(4, 16)\n        x = self.copied.copy_(x)\n        return (',
    )
    optimized, file = made(working)
    original = file.Model(16)
    module = optimized.load(original)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with mode():
            assert who(module, original, *inputs()) == "kernel"


@torch.no_grad()
def test_an_input_that_is_a_buffer_which_the_call_changes_is_the_originals() -> None:
    task = TASK.replace("torch.zeros(dim)", "torch.zeros(4, dim)").replace(
        f"return {ANSWER}", "self.shift.add_(1)\n        return self.linear(x) + x + self.shift"
    )
    late = KERNEL.replace("torch.zeros(dim)", "torch.zeros(4, dim)").replace(
        f"return {ANSWER}", "y = self.linear(x) + x\n        self.shift.add_(1)\n        return y + self.shift"
    )
    optimized, file = made(late, task)
    original = file.Model(16)
    module, other = optimized.load(original), copy.deepcopy(original)
    assert torch.equal(module(original.shift, 2.0), other(other.shift, 2.0))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_gets_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASK.replace("(self, x, scale)", "(self, x, scale: float)")
    (tmp_path / "scripted_original.py").write_text(task)
    (tmp_path / "scripted_optimized.py").write_text(delivered_text(KERNEL, task))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        original = importlib.import_module("scripted_original").Model(16)
        module, call = importlib.import_module("scripted_optimized").load(original), inputs()
        assert torch.equal(torch.jit.script(module)(*call), original(*call))  # type: ignore[no-untyped-call]
    finally:
        for name in ("scripted_original", "scripted_optimized"):
            sys.modules.pop(name, None)


HELD = """
class Settings:
    __slots__ = ("gain",)
    def __init__(self):
        self.gain = 1.0

class Config:
    def __init__(self):
        self.gain, self._own, self.more = 1.0, 1.0, {"of": {"them": 1.0}}

def by_config(module, y):
    return y * module.config.gain * getattr(module, "later", 1.0)

class Model"""
HOLDING = with_attribute("self.config, self.settings, self.tables = Config(), Settings(), [torch.ones(16)]", "FACTOR").replace(
    "class Model", HELD
)


@torch.no_grad()
@pytest.mark.parametrize(
    ("factor", "change"),
    [
        ("by_config(self, 1)", lambda module: setattr(module.config, "gain", 2.0)),
        ("by_config(self, 1)", lambda module: setattr(module, "later", 2.0)),
        ("self.config._own", lambda module: setattr(module.config, "_own", 2.0)),
        ("self.config.more['of']['them']", lambda module: module.config.more["of"].update(them=2.0)),
        ("self.settings.gain", lambda module: setattr(module.settings, "gain", 2.0)),
        ("self.tables[0]", lambda module: module.tables[0].mul_(2)),
        ("self.tables[0]", lambda module: module.tables.__setitem__(0, torch.full((16,), 2.0))),
        ("sum(self.tables)", lambda module: module.tables.append(torch.ones(16))),
    ],
)
def test_what_helpers_read_and_containers_hold_is_heard(factor: str, change: Callable[[Any], Any]) -> None:
    text = HOLDING.replace("FACTOR", factor)
    optimized, task = made(text.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), text)
    original = task.Model(16)
    module = optimized.load(original)
    module(*inputs())
    assert module.calls == 1 and not module.fallbacks
    change(original)
    given = inputs()
    torch.testing.assert_close(module(*given), original(*given))
    assert module.calls == 1 and module.fallbacks
    again = task.Model(16)
    change(again)
    with pytest.raises(ValueError, match="was"):
        optimized.load(again)
