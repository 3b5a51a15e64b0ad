"""Files of the compiler without what the task says already, made whole again and run."""

from __future__ import annotations

import ast
import functools
from dataclasses import replace

import pytest
import torch
from executed import executed

from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.compiler.link import linked
from bottega.compiler.step_compiler import StepCompiler
from bottega.compiler.strip import stripped
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.tasks.builtin import builtin_files, load_builtin

pytestmark = pytest.mark.rotates

NAMES = ("batch_norm_inference", "rms_norm_rows", "causal_dilated_conv1d", "contrastive_loss")
CPP: str = "cpp"
TRITON: str = "triton"
HELPED = """\
import torch
import torch.nn as nn

WIDTH = 16


class Gate(nn.Module):
    \"\"\"A gain per column.\"\"\"

    def __init__(self, width: int):
        super(Gate, self).__init__()
        self.gain = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return torch.relu(x * self.gain)


class Model(nn.Module):
    def __init__(self, scale: float = 2.0):
        super(Model, self).__init__()
        self.gate = self._made(WIDTH)
        self.scale = scale

    def _made(self, width):
        return Gate(width)

    def forward(self, x):
        return torch.tanh(self.gate(x)) * self.scale


def get_inputs():
    return [torch.randn(8, WIDTH)]


def get_init_inputs():
    return []
"""


@functools.cache
def course(name: str, language: str) -> tuple[Task, list[str]]:
    task = Task(HELPED, "helped") if name == "helped" else load_builtin(builtin_files(name)[0], "cpu")
    return task, [step.candidate.source for step in StepCompiler().build(task, language).steps]


@pytest.mark.parametrize("language", [TRITON, CPP])
@pytest.mark.parametrize("name", [*NAMES, "helped"])
def test_every_step_becomes_shorter_and_comes_back(name: str, language: str) -> None:
    task, sources = course(name, language)
    for source in sources:
        short = stripped(source, task.source)
        assert len(short) < len(source) and "class ModelNew(Model):" in short
        assert "nn.Parameter" not in short and "class Gate" not in short
        whole = linked(short, task.source)
        defined = {node.name for node in ast.parse(whole).body if isinstance(node, ast.ClassDef)}
        assert {"Model", "ModelNew"} <= defined
        assert stripped(whole, task.source) == short, "what was linked is shown as it was written"
        assert stripped(short, task.source) == short


@pytest.mark.parametrize("name", ["batch_norm_inference", "rms_norm_rows", "helped"])
def test_the_completed_kernel_computes_the_same(name: str) -> None:
    task, sources = course(name, CPP)
    given = executed(task.source)
    arguments, inputs = given.get_init_inputs(), given.get_inputs()
    kernels = [executed(source) for source in (sources[-1], linked(stripped(sources[-1], task.source), task.source))]
    outputs = []
    for kernel in kernels:
        torch.manual_seed(5)
        model = kernel.ModelNew(*arguments).eval()
        with torch.no_grad():
            outputs.append(model(*inputs))
    torch.manual_seed(5)
    with torch.no_grad():
        torch.testing.assert_close(outputs[1], given.Model(*arguments).eval()(*inputs), rtol=1e-4, atol=1e-4)
    assert torch.equal(outputs[0], outputs[1])


MINE = """\
import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(width) + 0.5)


class ModelNew(nn.Module):
    def __init__(self, scale=2.0):
        super().__init__()
        self.gate = self._made(16)
        self.scale = scale
        # ready for replays
        self.graph = None

    def _made(self, width):
        return Gate(width)

    def forward(self, x):
        return torch.tanh(torch.relu(x * self.gate.gain)) * self.scale
"""


def test_more_at_the_end_of_the_constructor_is_all_that_is_left_of_it() -> None:
    short = stripped(MINE.replace("16", "WIDTH"), HELPED)
    assert short == (
        "import torch\n\n\nclass ModelNew(Model):\n    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"
        "        # ready for replays\n        self.graph = None\n\n    def forward(self, x):\n"
        "        return torch.tanh(torch.relu(x * self.gate.gain)) * self.scale\n"
    )
    model = executed(linked(short, HELPED)).ModelNew(3.0)
    assert model.graph is None and model.scale == 3.0


@pytest.mark.parametrize(
    "change",
    [
        ("self.scale = scale", "self.scale = scale + 1"),
        ("scale=2.0", "scale=1.0"),
        ("self.graph = None", "self.graph = scale"),
        ("class ModelNew(nn.Module)", "class ModelNew(nn.Sequential)"),
        ("return torch.tanh", "return super().forward(x) + torch.tanh"),
        ("x * self.gate", "x + self.__gate"),
        ("class ModelNew", "ModelNew = None\n\n\nclass ModelNew"),
        ("        self.graph = None", "        self.graph = None; super().__init__()"),
        ("ModelNew(nn.Module):", "ModelNew(nn.Module)"),
    ],
)
def test_another_constructor_leaves_the_file_alone(change: tuple[str, str]) -> None:
    source = MINE.replace("16", "WIDTH").replace(*change)
    assert source != MINE.replace("16", "WIDTH") and stripped(source, HELPED) == source


def test_definitions_of_the_files_own_stay() -> None:
    source = MINE.replace("16", "WIDTH").replace("torch.rand(width) + 0.5", "torch.ones(width)")
    short = stripped(source, HELPED)
    assert "torch.ones(width)" in short and "class ModelNew(Model)" in short
    assert executed(linked(short, HELPED)).ModelNew().gate.gain.sum() == 16


@pytest.mark.parametrize(
    "source", ["", "x = (", "ModelNew = 3\n", "class ModelNew(Model): pass\n", "from torch import *\n" + MINE]
)
@pytest.mark.parametrize("task", [HELPED, "", "x = (", "Model = 3\n"])
def test_odd_files_never_raise(source: str, task: str) -> None:
    short = stripped(source, task)
    assert short == source or "class ModelNew(Model)" in short


def test_terse_prompts_show_earlier_kernels_short() -> None:
    past = EarlierTurn(MINE.replace("16", "WIDTH"), "Change.", "Told.", "slower", 0.9)
    given = WriterInput(Task(HELPED), "cpp", DeviceFacts("cpu", "a CPU", "x86_64", 2, 8.0), past=(past,), best=replace(past))
    terse, compact = (messages(given, Prompts(style))[-1].content for style in ("terse", "compact"))
    assert "class ModelNew(Model):" in terse and "class ModelNew(nn.Module):" not in terse and "attempt 1" in terse
    assert "class ModelNew(nn.Module):" in compact
