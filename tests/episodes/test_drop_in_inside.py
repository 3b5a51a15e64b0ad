"""Several kernels in one model: for other shapes of the same place, and for parts of a module that has one itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from episodes.marked_kernel import KERNEL, MARK, TASK, imported, made
from torch import nn

from bottega.episodes.delivery.end_to_end import shared_copy
from bottega.tasks.capture import task_of_call

OUTER = (
    TASK.replace("class Model", "class Part").partition("def get_inputs")[0]
    + """
class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.part = Part(dim)

    def forward(self, x, cache=None):
        x = self.part(x, 2.0)
        return x if cache is None else cache.update(x)

def get_inputs():
    return [torch.randn(4, 16)]

def get_init_inputs():
    return [16]
"""
)
OUTER_KERNEL = (
    OUTER.partition("def get_inputs")[0]
    .replace("class Model", "class ModelNew")
    .replace("return x if cache is None else cache.update(x)", f"return x + {10 * MARK}")
)


class Cache:
    """No kernel was judged with one."""

    def update(self, x: torch.Tensor) -> torch.Tensor:
        return x


def rows(count: int) -> tuple[Any, Any]:
    """A kernel for calls with so many rows, and the task's module."""
    optimized, task = made(KERNEL, TASK.replace("torch.randn(4, 16)", f"torch.randn({count}, 16)"))
    return optimized, task


def marks(module: Any, plain: Any, *arguments: Any) -> int:
    """Of the kernels that took part in an answer, the sum: 1 of the part's, 10 of the outer one's."""
    return round(float(((module(*arguments) - plain(*arguments)) / MARK).mean()))


@pytest.fixture
def net() -> tuple[Any, Any, Any, Any]:
    """A model, a copy that stays as it is, and the loaders of the outer kernel and its part's."""
    outer, task = made(OUTER_KERNEL, OUTER)
    inner, _ = made(
        KERNEL.replace("ModelNew", "PartNew") + "\nModelNew = PartNew\n",
        TASK.replace("class Model", "class Part") + "\nModel = Part\n",
    )
    model = task.Model(16)
    return model, shared_copy(model), outer.load, inner.load


@torch.no_grad()
@pytest.mark.parametrize("inner_first", [True, False])
def test_where_the_original_runs_the_kernels_of_its_parts_do(net: Any, inner_first: bool) -> None:
    model, plain, load, load_part = net
    if inner_first:
        model.part = load_part(model.part)
        fast = load(model)
    else:
        fast = load(model)
        fast.part = load_part(fast.part)  # as set_submodule does
    x = torch.randn(4, 16)
    assert marks(fast, plain, x) == 10 and marks(fast, plain, x, Cache()) == 1
    assert list(fast.fallbacks) == ["other arguments"] and model.part.calls == 1
    plain.part.linear.weight.mul_(0.5)  # which all of them share
    assert marks(fast, plain, x) == 10 and marks(fast, plain, x, Cache()) == 1
    twin = copy.deepcopy(fast)
    assert marks(twin, plain, x) == 10 and marks(twin, plain, x, Cache()) == 1 and twin.part is not fast.part
    handle = model.part.original.register_forward_hook(lambda *_: None)
    assert marks(fast, plain, x) == 0, "a hook behind a part's kernel was not heard"
    handle.remove()
    assert marks(fast, plain, x) == 10
    model.part.eps = 0.5
    assert marks(fast, plain, x) == 0, "an attribute behind a part's kernel was changed, and not noticed"


@torch.no_grad()
def test_each_shape_of_one_place_has_its_kernel() -> None:
    (four, task), (three, _) = rows(4), rows(3)
    original = task.Model(16)
    plain = shared_copy(original)
    fast = four.load(three.load(original))
    for count, mark in {4: 1, 3: 1, 2: 0}.items():
        assert marks(fast, plain, torch.randn(count, 16), 2.0) == mark
    assert (fast.calls, fast.original.calls) == (1, 1)
    assert list(fast.original.fallbacks) == ["shape (2, 16) where (3, 16) was"]
    assert dict(fast.named_parameters()).keys() == dict(plain.named_parameters()).keys()
    fast.eps = 0.5
    assert original.eps == 0.5 and marks(fast, plain, torch.randn(3, 16), 2.0) == 0
    original.eps = 1e-5
    original.register_forward_pre_hook(lambda *_: None)
    assert marks(fast, plain, torch.randn(4, 16), 2.0) == 0, "a hook of the original was not heard"


@torch.no_grad()
def test_compiled_code_finds_the_kernel_of_each_shape() -> None:
    (four, task), (three, _) = rows(4), rows(3)
    original = task.Model(16)
    plain, fast = shared_copy(original), four.load(three.load(original))
    compiled = torch.compile(fast, backend="eager", dynamic=False)
    for count, mark in {4: 1, 3: 1, 2: 0}.items():
        assert marks(compiled, plain, torch.randn(count, 16), 2.0) == mark


def test_a_module_of_another_kind_behind_a_kernel_is_refused() -> None:
    (four, task), other = rows(4), imported(TASK.replace("class Model", "class Other"), "other")
    with pytest.raises(ValueError, match="it is a Other, and was a Model"):
        four.load(other.Other(16))
    module = four.load(task.Model(16))
    module.original.linear = nn.Identity()
    with pytest.raises(ValueError, match=r"linear\.bias|its part linear"):
        four.load(module)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.linear(x) * 2.0)


@torch.no_grad()
def test_a_module_with_kernels_in_it_is_a_task_as_if_it_had_none() -> None:
    source = task_of_call(Scaled(), (torch.randn(4, 16),), {}).task.source
    own = f"class ModelNew({__name__}.Scaled):\n    def __init__(self): self.__dict__.update(captured().__dict__)\n"
    kernel = source.rpartition("\ndef get_inputs")[0] + "\n\n" + own
    optimized, task = made(kernel, source)
    model = nn.Sequential(optimized.load(task.Model()))
    again = imported(task_of_call(model, (torch.randn(3, 16),), {}).task.source, "again")
    assert type(again.Model()[0]) is Scaled
    one = imported(task_of_call(model[0], (torch.randn(3, 16),), {}).task.source, "one")
    assert type(one.Model()) is Scaled and one.get_inputs()[0][0].shape == (3, 16)
