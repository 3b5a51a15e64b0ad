"""Calls of a whole model that are recorded once and replayed. Where no GPU is, the recording is made of torch's operators with the same memory:
when a call may be replayed is tested so, and CUDA graphs themselves by the tests that need a GPU."""

from __future__ import annotations

import ast
import copy
import gc
import random
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from python_graphs import PythonGraphs, leaves
from torch import nn

from bottega.app.optimize_model import _write
from bottega.core.arguments import Arguments
from bottega.core.verdict import Speedup
from bottega.episodes.delivery.drop_in.recorded import MOST_KINDS, Recorded, recorded
from bottega.episodes.delivery.end_to_end import imported
from bottega.episodes.delivery.optimized_file import PARTS, RECORDED_PARTS, drop_in_text
from bottega.episodes.delivery.whole_model import FormResult, WholeModel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.scale = nn.Linear(8, 8), nn.Dropout(0.5), 2.0
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        found: torch.Tensor = self.two(self.one(x)) * self.scale + self.shift
        return found * 2 if twice else found


@pytest.fixture
def model() -> nn.Module:
    return recorded(Net().eval(), PythonGraphs())


def stands(model: nn.Module) -> Recorded:
    found: Any = model._compiled_call_impl
    return found  # type: ignore[no-any-return]


def called(model: nn.Module, times: int = 3) -> None:
    """Until its calls are replayed, each right."""
    for _ in range(times):
        x = torch.randn(4, 8)
        torch.testing.assert_close(model(x), model.forward(x))


@torch.no_grad()
def test_the_second_call_of_a_kind_is_recorded_and_answers_are_the_callers_own(model: nn.Module) -> None:
    x = torch.randn(4, 8)
    answers = [model(x + place) for place in range(4)]
    assert stands(model).replays == 3 and stands(model).others == {"the first call of its kind": 1}
    for place, each in enumerate(answers):
        torch.testing.assert_close(each, model.forward(x + place))
    torch.testing.assert_close(model(x, twice=True), model.forward(x, True))
    torch.testing.assert_close(model(x[:2]), model.forward(x[:2]))
    assert stands(model).others["the first call of its kind"] == 3


def _set(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda model: setattr(model, name, value)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a weight in place": lambda model: model.one.weight.mul_(2),
    "a buffer in place": lambda model: model.shift.add_(1),
    "another weight": lambda model: setattr(model.one, "weight", nn.Parameter(torch.randn(8, 8))),
    "the data of a weight": lambda model: setattr(model.one.weight, "data", torch.randn(8, 8)),
    "an attribute": _set("scale", 3.0),
    "another part": _set("one", nn.Linear(8, 8)),
    "a hook": lambda model: model.one.register_forward_hook(lambda *given: given[-1] * 3),
    "another forward": lambda model: setattr(model.one, "forward", lambda x: x * 5),
}


@torch.no_grad()
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_is_heard_in_the_next_call(model: nn.Module, name: str) -> None:
    called(model)
    CHANGES[name](model)
    x, before = torch.randn(4, 8), stands(model).replays
    torch.testing.assert_close(model(x), model.forward(x))
    assert stands(model).replays == before
    called(model)
    hooked = any("hooks" in reason for reason in stands(model).others)
    assert (stands(model).replays == before) == hooked == (name == "a hook")


@torch.no_grad()
def test_gradients_training_and_another_threads_call_run_the_model(model: nn.Module) -> None:
    called(model)
    with torch.enable_grad():
        model(torch.randn(4, 8)).sum().backward()
    assert model.one.weight.grad is not None
    with stands(model).turn:
        called(model, 1)
    model.train()
    model(torch.randn(4, 8))
    model.eval()
    model.two.train()
    assert (model(torch.ones(4, 8)) == model.shift).any()  # dropped
    assert {"gradients are wanted", "another thread is in a call", "the model is in training mode"} <= set(stands(model).others)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Odd(nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body, self.count, self.held = body, 0, dict[str, Any](last=torch.zeros(8))
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: Any, **options: Any) -> Any:
        return self.body(self, x, **options)


def _looks_outside_of_recordings(model: Any, x: torch.Tensor) -> torch.Tensor:
    if not torch.cuda.is_current_stream_capturing() and not x.isfinite().all():
        return x * 3
    return x * 2


def _counts(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.count += 1
    return x * model.count


def _stashes(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.held["last"] = model.held["last"] * 0.5 + x
    return model.held["last"] * 1  # type: ignore[no-any-return]


class Settings:
    __slots__ = ("more", "scale")

    def __init__(self) -> None:
        self.scale, self.more = 2.0, {"of": {"them": 3.0}}


def _by_settings(settings: Settings, x: torch.Tensor) -> torch.Tensor:
    return x * settings.scale * settings.more["of"]["them"]


BOX = {"scale": 2.0}


@torch.no_grad()
@pytest.mark.parametrize(
    ("body", "change"),
    [
        (lambda model, x: x + model.held["tables"][0], lambda held: held["tables"].__setitem__(0, torch.full((8,), 3.0))),
        (lambda model, x: x + model.held["tables"][0], lambda held: setattr(held["tables"][0], "data", torch.zeros(8))),
        (lambda model, x: _by_settings(model.held["settings"], x), lambda held: setattr(held["settings"], "scale", 5.0)),
        (lambda model, x: _by_settings(model.held["settings"], x), lambda held: held["settings"].more["of"].update(them=1.0)),
        (lambda model, x: x * float(held_array(model)[0]), lambda held: held_array(held).__setitem__(0, 4.0)),
        (lambda model, x: x * BOX["scale"], lambda held: BOX.update(scale=BOX["scale"] + 1)),
    ],
)
def test_what_lists_and_settings_hold_is_heard_too(body: Callable[..., Any], change: Callable[[Any], Any]) -> None:
    model = recorded(Odd(body), PythonGraphs()).eval()
    model.held.update(tables=[torch.ones(8)], settings=Settings(), array=numpy.ones(8))
    for place in range(6):
        if place == 3:
            change(model.held)
        x = torch.randn(8)
        torch.testing.assert_close(model(x), model.forward(x))
    assert stands(model).replays >= 3 and stands(model).others["the first call of its kind"] == 2


def held_array(model: Any) -> Any:
    return (model if isinstance(model, dict) else model.held)["array"]


@torch.no_grad()
def test_an_attribute_that_comes_later_and_another_class_are_heard() -> None:
    class Twice(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    model: Any = recorded(Odd(lambda model, x: model.part(x) * getattr(model, "late", 1.0)), PythonGraphs()).eval()
    model.part = nn.Linear(8, 8)
    called(model)
    model.late = 3.0
    called(model)
    model.part.__class__ = Twice
    called(model)
    assert stands(model).others["the model was changed"] == 2


@torch.no_grad()
def test_one_tensor_given_twice_is_one_and_odd_tensors_are_other_kinds() -> None:
    body = lambda model, x: x[0] * 5 if x[0] is x[1] else x[0] + x[1] * getattr(x[0], "times", 1)  # noqa: E731
    model = recorded(Odd(body), PythonGraphs()).eval()
    for place in range(12):
        one, other = torch.randn(8), torch.randn(8)
        if place % 4 == 3:
            one.times = 7  # type: ignore[attr-defined]
        given = (one, one) if place % 2 else (one, other)
        torch.testing.assert_close(model(given), model.forward(given))
    assert stands(model).replays == 7 and stands(model).others["a tensor with attributes"] == 3


@dataclass(frozen=True)
class Found:
    row: torch.Tensor
    wide: torch.Tensor


@torch.no_grad()
def test_slices_and_expanded_tensors_go_in_and_out() -> None:
    model = recorded(Odd(lambda model, x: Found((x * 2)[:, -1], (x * 2)[:1].expand(4, 8))), PythonGraphs()).eval()
    for x in (torch.randn(4, 16)[:, :8], torch.randn(4, 16)[:, 8:], torch.randn(4, 16)[:, 1:9]):
        found, wanted = model(x), model.forward(x)
        for one, other in ((found.row, wanted.row), (found.wide, wanted.wide)):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()
    for _ in range(2):
        x = torch.randn(1, 8).expand(4, 8)
        torch.testing.assert_close(model(x).row, model.forward(x).row)
    assert stands(model).replays == 3


@torch.no_grad()
def test_both_ways_to_tell_torch_of_tf32_may_be_used(model: nn.Module) -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # now `get_float32_matmul_precision` raises
    try:
        called(model)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert stands(model).replays == 2


@torch.no_grad()
def test_weights_are_given_back_with_the_model_and_a_model_is_recorded_once(model: nn.Module) -> None:
    assert stands(recorded(model, PythonGraphs())).compiled is None
    made = recorded(Net().eval(), PythonGraphs())
    called(made)
    assert stands(made).replays
    weight = weakref.ref(made.one.weight)
    gc.collect()
    gc.disable()
    try:
        del made
        assert weight() is None
    finally:
        gc.enable()


@torch.no_grad()
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda model, x: x.add_(1), "it returns what it was given"),
        (lambda model, x: x.add_(1) * 2, "it changes its inputs"),
        (lambda model, x: model.weight, "it returns a Parameter"),
        (lambda model, x: model.weight[:4], "it returns what it was given, or a weight"),
        (lambda model, x: x * torch.rand(()), "it draws numbers on the host"),
        (lambda model, x: x * random.random(), "it draws numbers on the host"),
        (lambda model, x: model.weight.add_(1) * x, "the model changes between its calls"),
        (lambda model, x: (x * 2, object()), "it returns a object"),
        (lambda model, x: x * numpy.random.rand(), "it draws numbers on the host"),
        (lambda model, x: (x * 2).as_strided((3, 4), (1, 1)), "whose elements share memory"),
        (_stashes, "the model changes between its calls"),
        (_counts, "the model changes between its calls"),
    ],
)
def test_what_a_recording_cannot_hold_runs(body: Callable[..., Any], reason: str) -> None:
    model, told = recorded(Odd(body), PythonGraphs()).eval(), ""
    for _ in range(60):
        model(torch.ones(8))
        told = " ".join(stands(model).others)
    assert not stands(model).replays and reason in told


@torch.no_grad()
@pytest.mark.parametrize(
    "body",
    [
        lambda model, x: Pair(x["a"] + 1, x["b"][0]),
        lambda model, x: {"sum": x["a"] + x["b"][0], "none": None, "more": [x["a"] * 2, 3]},
    ],
)
def test_structures_go_in_and_out(body: Callable[..., Any]) -> None:
    model = recorded(Odd(body), PythonGraphs()).eval()
    for place in range(4):
        x = {"a": torch.full((8,), float(place)), "b": (torch.randn(8).t() * 1, 1)}
        found, wanted = model(x), model.forward({"a": x["a"].clone(), "b": x["b"]})
        assert type(found) is type(wanted)
        for one, other in zip(leaves(found), leaves(wanted), strict=True):
            torch.testing.assert_close(one, other)


@torch.no_grad()
def test_a_tensor_that_is_returned_twice_is_one() -> None:
    def body(model: Any, x: torch.Tensor) -> Any:
        found = x * 2
        return found, [found]

    model = recorded(Odd(body), PythonGraphs()).eval()
    answers = [model(torch.randn(8)) for _ in range(3)]
    assert stands(model).replays == 2 and all(first is second for first, (second,) in answers)


@torch.no_grad()
def test_copies_are_not_recorded_and_kinds_are_few(model: nn.Module) -> None:
    called(model)
    assert copy.deepcopy(model)._compiled_call_impl is None
    for count in range(1, MOST_KINDS + 3):
        for _ in range(2):
            model(torch.randn(count, 8))
    assert len(stands(model).kinds) == MOST_KINDS and "too many kinds of calls" in stands(model).others


@torch.no_grad()
def test_what_torch_is_told_makes_another_kind(model: nn.Module) -> None:
    called(model)
    before = stands(model).replays
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(4, 8)
        torch.testing.assert_close(model(x), model.forward(x))
    torch.use_deterministic_algorithms(True)
    try:
        called(model, 1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert stands(model).replays == before


@torch.no_grad()
@pytest.mark.gpu
def test_a_graph_answers_as_the_model_does_on_other_streams_and_after_changes() -> None:
    model = recorded(Net().cuda().eval())
    called_on = torch.cuda.Stream()
    for place in range(6):
        with torch.cuda.stream(called_on if place % 2 else torch.cuda.current_stream()):
            x = torch.randn(4, 8, device="cuda")
            found, wanted = model(x), model.forward(x)
        torch.cuda.synchronize()
        torch.testing.assert_close(found, wanted)
    assert stands(model).replays == 5
    model.one.weight.mul_(2)
    x = torch.randn(4, 8, device="cuda")
    torch.testing.assert_close(model(x), model.forward(x))
    model.cpu()
    torch.cuda.empty_cache()
    model.cuda()
    for _ in range(4):
        x = torch.randn(4, 8, device="cuda")
        torch.testing.assert_close(model(x), model.forward(x))
    assert stands(model).replays > 5
    reads = recorded(Odd(lambda module, x: x * 2 if x.sum() > 0 else x * 3).cuda().eval())
    for place in range(4):
        x = torch.full((8,), place - 1.5, device="cuda")
        torch.testing.assert_close(reads(x), x * 2 if place > 1 else x * 3)
    assert not stands(reads).replays and any("cannot be recorded" in reason for reason in stands(reads).others)
    looks = recorded(Odd(_looks_outside_of_recordings).cuda().eval())
    for _ in range(4):
        torch.testing.assert_close(looks(x), x * 2)
    assert stands(looks).replays == 3
    waits = recorded(Odd(lambda module, x: (torch.cuda.synchronize(), x * 2)[1]).cuda().eval())
    for _ in range(4):
        torch.testing.assert_close(waits(x), x * 2)
    assert not stands(waits).replays
    assert torch.randn(8, device="cuda").isfinite().all(), "a recording that broke off leaves the generator as it was"
    halves = recorded(Net().cuda().eval())
    for _ in range(4):
        x = torch.randn(4, 8, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            torch.testing.assert_close(halves(x), halves.forward(x))
        torch.cuda.empty_cache()
    assert stands(halves).replays == 3
    threads = [threading.Thread(target=lambda: called_in_a_thread(model)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def called_in_a_thread(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(20):
            x = torch.randn(4, 8, device="cuda")
            torch.testing.assert_close(model(x), model.forward(x))


@torch.no_grad()
def test_a_loader_records_by_its_own_text(tmp_path: Path) -> None:
    best = FormResult("eager", speedups={"eager": Speedup(2.0, 1.9, 2.1)}, recorded=True)
    model = Net().eval()
    _write(tmp_path, model, Arguments((torch.randn(4, 8),), {}), WholeModel((best,), ("eager",)), [], "")
    found = imported(tmp_path / "optimized_model.py").load(model)
    x = torch.randn(4, 8)
    torch.testing.assert_close(found(x), Net.forward(model, x))
    told: Any = found._compiled_call_impl
    assert type(told).__module__ != Recorded.__module__ and "a tensor on cpu, or in another layout" in told.others
    again = copy.deepcopy(model)
    assert imported(tmp_path / "optimized_model.py").load(again, recorded=False)._compiled_call_impl is None


@pytest.mark.parametrize("parts", [PARTS, RECORDED_PARTS])
def test_texts_that_are_put_into_one_function_bind_no_name_twice(parts: tuple[str, ...]) -> None:
    tree = ast.parse("def text():\n" + drop_in_text(parts))
    inside: Any = tree.body[0]
    bound = Counter(each.name for each in inside.body if isinstance(each, ast.FunctionDef | ast.ClassDef))
    assert len(bound) > 20 and not [name for name, count in bound.items() if count > 1]
