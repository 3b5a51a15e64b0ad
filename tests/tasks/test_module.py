"""Any file with an nn.Module becomes a task by text: which class, how it is built and called, and what is said when that is not clear."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from executed import executed

from bottega.core.errors import TaskError, UsageError
from bottega.tasks.module import MARK, Wanted, module_task_of, open_module

ONE = """
from torch import nn
import torch.nn.functional as F

class Gate(nn.Module):
    def __init__(self, dim, bias=True, *, eps=1e-5):
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=bias)

    def forward(self, x, scale=1.0):
        return F.silu(self.linear(x)) * scale

def batch():
    return x
"""
TWO = ONE + "\nclass Block(Gate):\n    def forward(self, x):\n        return super().forward(x) + x\n"
COMPLETE = """
import torch
from torch import nn

class Helper(nn.Module): ...

class Model(nn.Module):
    def forward(self, x):
        return x

def get_inputs():
    return [torch.randn(2)]

def get_init_inputs():
    return []
"""


def made(text: str, class_name: str | None = None, inputs: str | None = None, init: str | None = None) -> str:
    """What is written below the file, run together with it as far as it can be without torch."""
    source = module_task_of(text, Wanted(class_name, inputs, init), "file", "file.py").task.source
    return source[source.index(MARK) :] if MARK in source else ""


def refusal(text: str, class_name: str | None = None, inputs: str | None = None, init: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        made(text, class_name, inputs, init)
    return str(caught.value)


def test_a_file_in_kernelbenchs_format_stays_as_it_is() -> None:
    subject = module_task_of(COMPLETE, Wanted(), "file", "file.py")
    assert subject.task.source == COMPLETE == subject.original
    assert subject.class_name == "Model"


def test_the_only_module_is_found_and_what_is_missing_is_written_below() -> None:
    subject = module_task_of(ONE, Wanted(inputs="torch.randn(8, 64)", init="64"), "file", "file.py")
    assert subject.class_name == "Gate"
    assert subject.original == ONE
    assert subject.task.source.startswith(ONE.rstrip("\n"))
    added = subject.task.source.split(MARK)[1]
    assert "import torch\nModel = Gate\n" in added
    assert "def get_inputs():\n    return [torch.randn(8, 64)]" in added
    assert "def get_init_inputs():\n    return [64]" in added
    assert "matmul" in subject.task.tags


def test_the_same_text_and_wishes_make_the_same_task() -> None:
    wanted = Wanted(inputs="torch.randn(8, 64)", init="64")
    one, two = (module_task_of(ONE, wanted, name, name).task for name in ("a", "b"))
    assert one.source == two.source and one.id == two.id


def test_a_function_of_the_file_gives_the_inputs() -> None:
    assert "return batch()" in made(ONE, inputs="batch", init="64")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("torch.randn(8, 512), torch.randn(512)", "[torch.randn(8, 512), torch.randn(512)]"),
        ("[torch.randn(8), 2.0]", "[torch.randn(8), 2.0]"),
        ("(torch.randn(8),)", "[torch.randn(8)]"),
        ("torch.randn(8), scale=3", "[torch.randn(8), 3]"),
        ("torch.randn(8) # a comment", "[torch.randn(8)]"),
        ("*batch()", "[*batch()]"),
        ("{'x': torch.randn(8), 'scale': 3}", "{'x': torch.randn(8), 'scale': 3}"),
        ("dict(x=torch.randn(8), scale=3)", "dict(x=torch.randn(8), scale=3)"),
    ],
)
def test_expressions_are_the_arguments_of_one_call(inputs: str, expected: str) -> None:
    assert f"return {expected}" in made(ONE, inputs=inputs, init="64")


def test_keywords_find_their_places_with_defaults_between() -> None:
    assert "return [64, False]" in made(ONE, inputs="x", init="bias=False, dim=64")
    assert "return [64]" in made(ONE, inputs="x", init="dim=64")


def test_keywords_without_a_place_are_given_by_name() -> None:
    assert "return [[64], {'eps': 1}]" in made(ONE, inputs="x", init="64, eps=1")
    imported = "import torch\nfrom shapes import Gate\n"
    assert "return [[x], {'scale': 2}]" in made(imported, "Gate", inputs="x, scale=2", init="64")


def test_a_function_becomes_a_module_that_calls_it() -> None:
    text = "import torch\n\ndef gated(x: torch.Tensor, scale=2, *, bias=None):\n    return x * scale\n"
    task = module_task_of(text, Wanted(inputs="torch.randn(2), bias=1", function="gated"), "file", "file.py").task
    assert "def forward(self, x, scale=2, *, bias=None):\n        return gated(x, scale, bias=bias)" in task.source
    assert "return [[torch.randn(2)], {'bias': 1}]" in task.source
    with pytest.raises(UsageError, match="functions there: gated"):
        module_task_of(text, Wanted(inputs="x", function="missing"), "file", "file.py")
    with pytest.raises(UsageError, match="in place of --class"):
        module_task_of(text, Wanted(inputs="x", init="1", function="gated"), "file", "file.py")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ONE, Wanted(inputs="torch.randn(2, 4)", init="4")),
        (TWO, Wanted("Block", inputs="batch", init="dim=4")),
        (COMPLETE.replace("return x\n", "return self.w * x\n").replace("forward", "__init__(self):\n        "
         "super(Model, self).__init__()\n        self.w = nn.Parameter(torch.ones(2))\n\n    def forward"), Wanted()),
        ("from torch.nn import Linear\n", Wanted("Linear", inputs="torch.randn(2, 4)", init="4, 4")),
        ("import torch\n\ndef scaled(x, by=2.0):\n    return x * by\n", Wanted(inputs="torch.randn(2)", function="scaled")),
    ],
    ids=["class", "derived", "kernelbench", "imported", "function"],
)  # fmt: skip
def test_weights_and_inputs_come_in_the_data_type_that_is_asked_for(text: str, wanted: Wanted) -> None:
    text = text.replace("return x\n", "return [(torch.randn(2, 4), torch.arange(2))[0]]\n") if "batch" in text else text
    text = text if "import torch\n" in text else "import torch\n" + text
    task = executed(module_task_of(text, replace(wanted, dtype="bfloat16"), "file", "file.py").task.source)
    model, inputs = task.Model(*task.get_init_inputs()), task.get_inputs()
    assert all(weight.dtype == torch.bfloat16 for weight in model.parameters())
    assert inputs[0].dtype == torch.bfloat16 and model(*inputs).dtype == torch.bfloat16
    plain = executed(module_task_of(text, wanted, "file", "file.py").task.source)
    assert plain.get_inputs()[0].dtype == torch.float32
    original = plain.Model(*plain.get_init_inputs())
    assert model.state_dict().keys() == original.state_dict().keys()
    assert type(model).__name__ == type(original).__name__


def test_whole_numbers_and_what_has_a_type_of_its_own_stay(tmp_path: Path) -> None:
    inputs = "torch.randn(2), torch.arange(2), {'a': (torch.randn(2), None)}, torch.randn(2, dtype=torch.float64)"
    task = executed(module_task_of(COMPLETE, Wanted("Model", inputs, dtype="float16"), "file", "file.py").task.source)
    first, whole, held, wide = task.get_inputs()
    assert (first.dtype, whole.dtype, wide.dtype) == (torch.float16, torch.int64, torch.float64)
    assert held["a"][0].dtype == torch.float16 and held["a"][1] is None
    made = open_module("builtin:star_relu", Wanted(dtype="bfloat16")).task
    assert executed(made.source).get_inputs()[0].dtype == torch.bfloat16


def test_an_inherited_constructor_is_seen() -> None:
    assert "return [64, False]" in made(TWO, "Block", inputs="x", init="64, bias=False")


def test_several_modules_are_listed() -> None:
    told = refusal(TWO, inputs="x", init="64")
    assert "--class" in told and "Gate, Block" in told
    assert "Model = Block" in made(TWO, "Block", inputs="x", init="64")


def test_model_is_meant_where_there_is_one() -> None:
    assert module_task_of(COMPLETE, Wanted(inputs="torch.randn(3)"), "file", "file.py").class_name == "Model"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"inputs": "x"}, ("needs dim", '--init "dim=…"')),
        ({"init": "64"}, ("--inputs", "Gate.forward(self, x, scale=1.0)")),
        ({"init": "64", "inputs": "torch.randn(("}, ("neither a function of the file nor an expression",)),
        ({"init": "64", "inputs": "x), (y"}, ("neither a function of the file nor an expression", "one expression")),
        ({"init": "64", "inputs": "x) or f("}, ("one expression",)),
        ({"init": "64", "inputs": "x, get_inputs()"}, ("get_inputs alone",)),
        ({"init": "64, depth=1", "inputs": "x"}, ("depth has no place of its own",)),
        ({"init": "bias=False", "inputs": "x"}, ("lacks dim",)),
        ({"init": "64, dim=3", "inputs": "x"}, ("dim has no place",)),
        ({"class_name": "Missing", "init": "64", "inputs": "x"}, ("no class 'Missing'", "Gate")),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_say(arguments: dict[str, str], words: tuple[str, ...]) -> None:
    told = refusal(ONE, **arguments)
    assert any(word in told for word in words), told


def test_a_file_without_modules_says_so() -> None:
    assert "no nn.Module class" in refusal("x = 1\n", inputs="x")
    assert "function=NAME for a function (loss, norm)" in refusal("def loss(x): ...\ndef get_inputs(): ...\ndef norm(x): ...\n")


@pytest.mark.parametrize("text", ["", "def broken(:\n", "\0"])
def test_broken_files_are_task_errors(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(text)
    with pytest.raises(TaskError, match=r"file\.py"):
        open_module(str(path), Wanted())


def test_reading_never_runs_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n" + ONE)
    open_module(str(path), Wanted(inputs="__import__('os').system('touch ran')", init="64"))
    assert not (tmp_path / "ran").exists()


def test_tasks_by_reference_are_taken_as_they_are() -> None:
    subject = open_module("builtin:star_relu", Wanted())
    assert subject.task.name == "star_relu" and subject.original == subject.task.source
    with pytest.raises(UsageError, match="is a task already"):
        open_module("builtin:star_relu", Wanted(inputs="torch.randn(2)"))
    with pytest.raises(UsageError, match="no such file"):
        open_module("missing.py", Wanted())
