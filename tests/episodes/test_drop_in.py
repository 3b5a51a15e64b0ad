"""The module around a kernel: when the kernel runs, when the original does, and that both share one set of parameters."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from episodes.marked_kernel import KERNEL, MARK, TASK, inputs, made, who
from torch import nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from bottega.episodes.delivery.drop_in.state import ALIGNMENT


class Special(torch.Tensor):
    """Whatever it stands for, the kernel was not judged on it."""


@pytest.fixture
def pair() -> tuple[Any, Any]:
    optimized, task = made()
    original = task.Model(16)
    return optimized.load(original), original


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
def test_arguments_that_never_lay_dense_are_copied_for_the_kernel() -> None:
    optimized, task = made(KERNEL, TASK.replace("torch.randn(4, 16)", "torch.randn(1, 16).expand(4, 16)"))
    original = task.Model(16)
    module = optimized.load(original)
    for x in (torch.randn(1, 16).expand(4, 16), torch.randn(4, 40)[:, ::2][:, :16], torch.randn(4, 16)):
        assert who(module, original, x, 2.0) == "kernel"
    assert who(module, original, torch.randn(16, 4).t(), 2.0) == "original"  # dense in another order: another kernel


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
    assert set(module.fallbacks) == {"keyword arguments other", "other arguments", "autocast is on", "the original has hooks"}


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
def test_weights_that_were_mapped_from_a_file_are_moved_where_kernels_want_them(tmp_path: Path) -> None:
    """Every model that transformers loads on a CPU has such; a view of a larger tensor is somebody's, and stays."""
    from safetensors.torch import load_file, save_file

    optimized, task = made()
    save_file(task.Model(16).state_dict(), tmp_path / "model.safetensors", metadata={"format": "pt"})
    original = task.Model(16)
    original.load_state_dict(load_file(tmp_path / "model.safetensors"), assign=True)
    first = original.linear.weight.clone()
    assert (
        original.linear.weight.data_ptr() % ALIGNMENT
        and original.linear.weight.untyped_storage().nbytes() == original.linear.weight.nbytes
    )
    assert who(optimized.load(original), original, *inputs()) == "kernel"
    assert torch.equal(original.linear.weight, first)

    larger = torch.randn(257)
    original.linear.weight.data = larger[1:].view(16, 16)
    assert who(optimized.load(original), original, *inputs()) == "original"
    assert original.linear.weight.data_ptr() == larger[1:].data_ptr()


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
    operator: Any = torch.ops.bottega.drop_in.default
    assert torch.Tag.cudagraph_unsafe in operator.tags  # type: ignore[attr-defined]


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


@pytest.mark.parametrize("part", ["nn.Dropout(0.5)", "nn.MultiheadAttention(dim, 2, dropout=0.5)"])
def test_a_part_in_another_mode_is_the_originals(part: str) -> None:
    task = TASK.replace("self.register_buffer", f"self.part = {part}\n        self.register_buffer")
    optimized, original_task = made(
        task.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), task, training=False
    )
    original = original_task.Model(16).eval()
    module = optimized.load(original)
    with torch.no_grad():
        module(*inputs())
        original.part.train()  # dropout in evaluation, say, to see how sure a model is
        module(*inputs())
    assert module.calls == 1 and dict(module.fallbacks) == {"a part of it is in training mode": 1}


@torch.no_grad()
def test_one_call_at_a_time_is_the_kernels() -> None:
    """It was judged so, and may have one buffer for all calls."""
    started, go = threading.Event(), threading.Event()
    kernel = KERNEL.replace("        return (self", "        WAIT()\n        return (self")
    optimized, task = made(kernel)
    optimized.WAIT = lambda: (started.set(), go.wait(20))
    original = task.Model(16).requires_grad_(False)
    module, call = optimized.load(original), inputs()
    found: list[str] = []
    first = threading.Thread(target=lambda: found.append(who(module, original, *call)))
    first.start()
    assert started.wait(20)
    assert who(module, original, *call) == "original"
    go.set()
    first.join()
    assert found == ["kernel"] and dict(module.fallbacks) == {"another thread is in a call": 1}
    assert who(copy.deepcopy(module), original, *call) == "kernel"


@torch.no_grad()
def test_results_lie_as_the_originals_do() -> None:
    optimized, task = made(
        KERNEL.replace(f"* scale + {MARK}", f"* scale + {MARK}).t().contiguous().t()").replace("(self.lin", "((self.lin")
    )
    module, call = optimized.load(task.Model(16)), inputs()
    assert module(*call).stride() == (16, 1) and module(*call).view(64).shape == (64,) and module.calls == 2


@torch.no_grad()
def test_whatever_wraps_or_grows_a_part_is_not_overlooked() -> None:
    task = TASK.replace("self.register_buffer", "self.parts, self.sizes = nn.ModuleList(), [1]\n        self.register_buffer")
    task = task.replace("nn.Linear(dim, dim)", "nn.Linear(dim, dim, bias=False)")
    changes = [
        lambda original: setattr(original.linear, "bias", nn.Parameter(torch.ones(16))),
        lambda original: original.parts.append(nn.Identity()),
        lambda original: setattr(original.linear, "forward", lambda x: x),
        lambda original: original.sizes.append(2),
        lambda original: setattr(original.linear, "weight", nn.Parameter(Special(torch.ones(16, 16)), requires_grad=False)),
    ]
    for change in changes:
        optimized, original_task = made(task.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), task)
        original = original_task.Model(16)
        module = optimized.load(original)
        module(*inputs())
        change(original)
        module(*inputs())
        assert module.calls == 1 and sum(module.fallbacks.values()) == 1, (change, module.fallbacks)


def test_in_transforms_and_modes_of_torchs_the_original_runs(pair: tuple[Any, Any]) -> None:
    module, original = pair
    several = [copy.deepcopy(original) for _ in range(2)]
    state = torch.func.stack_module_state(several)
    x, scale = inputs()
    with torch.no_grad():
        each = torch.func.vmap(lambda *own: torch.func.functional_call(module, own, (x, scale)))(*state)
        torch.testing.assert_close(each[1], several[1](x, scale))
        traced = make_fx(lambda x: module(x, scale))(x)
        assert torch.equal(traced(2 * x), original(2 * x, scale))
        with forward_ad.dual_level():
            assert module(forward_ad.make_dual(x, x), scale).shape == (4, 16)
    assert module.calls == 0


@torch.no_grad()
def test_compiled_code_holds_the_original_of_what_changes_its_inputs() -> None:
    task = TASK.replace("return (", "x.add_(1)\n        return (")
    optimized, original_task = made(task.partition("def get_inputs")[0].replace("class Model", "class ModelNew"), task)
    module = optimized.load(original_task.Model(16))
    torch.compile(module, backend="aot_eager")(*inputs())
    assert module.calls == 0
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
