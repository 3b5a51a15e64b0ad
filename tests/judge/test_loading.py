"""Parameters are loaded strictly, or not at all with the difference in words; precision is what the user allowed."""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from bottega.core.arguments import Arguments
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.loading import autocast, bytes_of, import_source, load_state, read_initial, set_precision, state_of


def saved(module: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    return buffer.getvalue()


def test_the_same_names_are_loaded() -> None:
    wanted, own = nn.Linear(3, 4), nn.Linear(3, 4)
    assert load_state(own, saved(wanted), False) == ""
    assert torch.equal(own.weight, wanted.weight)


def test_buffers_are_loaded_too() -> None:
    wanted, own = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    wanted.running_mean.fill_(3.0)
    assert load_state(own, saved(wanted), False) == ""
    assert own.running_mean.tolist() == [3.0] * 4


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 3))
        self.shift = nn.Parameter(torch.zeros(4))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (nn.Linear(3, 4, bias=False), ["lacks bias"]),
        (nn.Linear(3, 5), ["has other shapes for bias, weight"]),
        (Renamed(), ["lacks bias", "adds shift"]),
        (nn.ReLU(), ["lacks bias, weight"]),
    ],
)
def test_other_names_or_shapes_leave_the_module_as_it_was(own: nn.Module, words: list[str]) -> None:
    before = {name: value.clone() for name, value in own.state_dict().items()}
    told = load_state(own, saved(nn.Linear(3, 4)), False)
    for word in words:
        assert word in told
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())


def test_what_a_module_has_beside_the_reference_stays_as_it_was_built() -> None:
    own = nn.Linear(3, 4)
    own.register_buffer("packed", torch.full((2,), 7.0))
    wanted = nn.Linear(3, 4)
    assert load_state(own, saved(wanted), False) == ""
    assert torch.equal(own.bias, wanted.bias)
    assert own.packed.tolist() == [7.0, 7.0]


def test_other_names_with_the_same_shapes_are_loaded_by_order_where_that_is_wanted() -> None:
    own, wanted = Renamed(), nn.Linear(3, 4)
    assert load_state(own, saved(wanted), True) == ""
    assert torch.equal(own.weight, wanted.weight)
    assert torch.equal(own.shift, wanted.bias)
    assert "has other shapes" in load_state(nn.Linear(4, 3), saved(wanted), True)


def test_precision_flags_follow_the_user() -> None:
    kept = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        set_precision("tf32")
        assert torch.get_float32_matmul_precision() == "high"
        set_precision("fp32")
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(kept[0])
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept[1:]


def test_autocast_gives_the_baseline_the_same_right() -> None:
    matrix = torch.randn(4, 4)
    with autocast("cpu", "bf16"):
        assert (matrix @ matrix).dtype == torch.bfloat16
    with autocast("cpu", "fp32"):
        assert (matrix @ matrix).dtype == torch.float32


@dataclass
class Settings:
    width: int


def test_initial_arguments_are_of_the_classes_of_the_file_that_gets_them() -> None:
    task, candidate = ModuleType("task"), ModuleType("candidate")
    exec("class Config:\n    width = 3\n    class Inner: pass\n", vars(task))
    exec("class Config:\n    width = 4\n    class Inner: pass\n", vars(candidate))
    sys.modules["task"] = task
    try:
        for made in (task.Config, task.Config.Inner):
            made.__module__ = "task"
        data = pickle.dumps(Arguments((task.Config(), task.Config.Inner(), Settings(3), torch.exp), {"more": [1.5]}))
        read = read_initial(data, candidate)
        with pytest.raises(NameError, match=r"no Config, which get_init_inputs\(\) gives"):
            read_initial(data, ModuleType("other"))
    finally:
        del sys.modules["task"]
    assert [type(value) for value in read.positional[:3]] == [candidate.Config, candidate.Config.Inner, Settings]
    assert read.positional[0].width == 4
    assert read.positional[2:] == (Settings(3), torch.exp)
    assert read.keywords == {"more": [1.5]}


def test_bytes_are_counted_of_sparse_tensors_too() -> None:
    eye = torch.eye(8)
    assert bytes_of([eye, torch.ones(3, dtype=torch.float64)]) == 256 + 24
    assert bytes_of([eye.to_sparse(), eye.to_sparse_csr()]) == 2 * 64


def test_state_beside_tensors_is_the_module_s_own() -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> dict:
            return {"k": 2.0}

        def set_extra_state(self, state: dict) -> None:
            raise AssertionError

    wanted, own = nn.Linear(3, 4), Extra(3, 4)
    assert load_state(own, saved(wanted), False) == ""
    assert torch.equal(own.weight, wanted.weight)
    with pytest.raises(InvalidTask, match="_extra_state is a dict"):
        state_of(own)


def test_texts_of_one_length_in_one_second_are_two_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    now = [import_source(f"value = {number}", "one_of_two").value for number in (1, 2)]
    monkeypatch.delitem(sys.modules, "one_of_two")
    assert now == [1, 2]
