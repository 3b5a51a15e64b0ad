"""Layers that stay layers: called by name where that is the same, exchanged for ours where ours compute them, and else left as they were."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from bottega.compiler.builder import Builder, techniques_of, understand
from bottega.compiler.layers.kept import KEPT, Layer
from bottega.compiler.link import completed
from bottega.compiler.strip import shortened
from bottega.compiler.style import Style
from bottega.core.task import Task

PLAIN = Style(0, True)
CONV = "self.conv = nn.Conv2d(16, 32, 3, padding=1)"
IMAGE = "2, 16, 8, 8"


def task(layers: str, shape: str = IMAGE, called: str = "self.conv(x)", before: str = "", imports: str = "") -> Task:
    """A module that ends in something of ours."""
    return Task(f"""\
import torch
import torch.nn as nn
import torch.nn.functional as F
{imports}
{textwrap.dedent(before)}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{textwrap.indent(textwrap.dedent(layers), " " * 8)}

    def forward(self, x):
        return torch.tanh({called}) * 2


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
""")


CASES: dict[str, tuple[Task, list[str], list[str]]] = {
    # The task, the calls of layers that forward makes, and the kinds that are ours.
    "conv2d": (task(CONV), ["self.conv(x)"], ["Conv2d"]),
    "transposed": (
        task("self.up = nn.ConvTranspose2d(16, 16, 4, stride=2, padding=1)", called="self.up(x)"),
        ["self.up(x).contiguous()"],
        ["ConvTranspose2d"],
    ),
    "linear": (task("self.fc = nn.Linear(128, 256)", "128, 128", "self.fc(x)"), ["self.fc(x)"], ["Linear"]),
    "small linear": (task("self.fc = nn.Linear(24, 40)", "128, 24", "self.fc(x)"), ["self.fc(x)"], []),
    "conv3d": (task("self.conv = nn.Conv3d(16, 32, 3)", "2, 16, 8, 8, 8"), ["self.conv(x)"], []),
    "groups": (task("self.conv = nn.Conv2d(16, 32, 3, groups=2)"), ["self.conv(x)"], []),
    "same": (task('self.conv = nn.Conv2d(16, 32, 3, padding="same")'), ["self.conv(x)"], []),
    "twice": (
        task("self.conv = nn.Conv2d(16, 16, 3, padding=1)", called="self.conv(self.conv(x))"),
        ["self.conv(x)", "self.conv(t1)"],
        ["Conv2d"],
    ),
    "in a list": (
        task("self.net = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ConvTranspose2d(32, 16, 3))", called="self.net(x)"),
        ["self.net[0](x)", "self.net[1](t1).contiguous()"],
        ["Conv2d", "ConvTranspose2d"],
    ),
    "one of two": (
        task(CONV + "\nself.kernel = nn.Parameter(torch.randn(8, 32, 3, 3))", called="F.conv2d(self.conv(x), self.kernel)"),
        ["self.conv(x)", "F.conv2d(t1, self.kernel)"],
        ["Conv2d"],
    ),
}
NOT_BY_NAME = {
    "reflect": task('self.conv = nn.Conv2d(16, 32, 3, padding=1, padding_mode="reflect")'),
    "parameter": task("self.kernel = nn.Parameter(torch.randn(32, 16, 3, 3))", called="F.conv2d(x, self.kernel)"),
    "other options": task(CONV, called="F.conv2d(x, self.conv.weight, self.conv.bias, stride=2)"),
    "without its bias": task(CONV, called="F.conv2d(x, self.conv.weight, padding=1)"),
    "both ways": task(CONV, called="F.conv2d(x, self.conv.weight) + self.conv(x)[:, :, 1:-1, 1:-1]"),
    "hook": task(CONV + "\nself.conv.register_forward_hook(lambda module, given, result: result + 1)"),
    "a shared weight": task(
        "self.a = nn.Linear(128, 128, bias=False)\nself.b = nn.Linear(128, 128)\nself.b.weight = self.a.weight",
        "128, 128",
        "self.b(self.a(x))",
    ),
    "its own class": task(
        "self.conv = Conv2d(16, 32, 3)",
        before="""
        class Conv2d(nn.Conv2d):
            def forward(self, x):
                return super().forward(x * 2)
        """,
    ),
}


@cache
def kept(given: Task) -> str:
    """The file of this technique; empty where there is none."""
    steps = Builder(plain=True).build(given, "triton", without=("own_product", "own_convolution")).steps
    return next((step.candidate.source for step in steps if step.technique == KEPT.name), "")


def calls(source: str) -> list[str]:
    """What forward calls that is a layer, or could be one."""
    (model,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]
    (forward,) = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    made = [ast.unparse(node.value) for node in ast.walk(forward) if isinstance(node, ast.Assign)]
    return [text for text in made if text.startswith(("self.", "F."))]


def imported(source: str, folder: Path, name: str) -> Any:
    """From a file: Triton reads the text of a kernel there."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_layers_are_called_by_name_and_those_that_we_compute_are_ours(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    given, called, ours = CASES[name]
    source = kept(given)
    assert calls(source) == called
    assert re.findall(r"type\(layer\) is nn\.(\w+)", source) == ours and ("def tiles(" in source) == bool(ours)
    theirs = imported(given.source, tmp_path, "kept_task")
    reference = theirs.Model()
    short = shortened(source, given.source)
    assert len(short) < len(source) and "class ModelNew(Model):" in short
    for number, text in enumerate((source, completed(short, given.source))):
        file = imported(text, tmp_path, f"kept_{number}")
        new = file.ModelNew()
        assert list(new.state_dict()) == list(reference.state_dict())
        new.load_state_dict(reference.state_dict())
        for mine, other in zip(list(new.modules())[1:], list(reference.modules())[1:], strict=True):
            assert isinstance(mine, type(other)) and (type(mine) is type(other)) != (type(other).__name__ in ours)
            assert type(mine) is type(other) or type(mine).__module__ == file.__name__
    assert shortened(completed(short, given.source), given.source) == short


def test_a_layer_that_is_not_ours_gives_what_it_gave(tmp_path: Path) -> None:
    """Of a kind that is exchanged, but with groups: our class leaves it to torch's."""
    pytest.importorskip("triton")
    given = task(CONV + "\nself.deep = nn.Conv2d(32, 32, 3, groups=32)", called="self.deep(self.conv(x))")
    source = kept(given)
    assert calls(source) == ["self.conv(x)", "self.deep(t1)"]
    new = imported(source, tmp_path, "kept_grouped").ModelNew()
    assert type(new.deep) is type(new.conv) is not torch.nn.Conv2d
    x = torch.randn(2, 32, 8, 8)
    assert torch.equal(new.deep(x), torch.nn.functional.conv2d(x, new.deep.weight, new.deep.bias, groups=32))


@pytest.mark.parametrize("name", NOT_BY_NAME)
def test_what_is_not_the_same_is_not_called_by_name(name: str) -> None:
    given = NOT_BY_NAME[name]
    assert understand(given, PLAIN).layers == () and kept(given) == ""


def test_it_is_listed_where_it_is_taught() -> None:
    assert KEPT.name in {technique.name for technique in techniques_of("triton")}
    assert KEPT.name not in {technique.name for technique in techniques_of("cpp")}


def test_a_layer_is_ours_only_where_all_of_its_calls_are() -> None:
    given = task("self.fc = nn.Linear(128, 128)", "128, 128", "self.fc(x) + self.fc(x[:8]).sum()")
    assert understand(given, PLAIN).layers == (Layer("self.fc", "Linear", False),)
    assert understand(task("self.fc = nn.Linear(128, 128)", "128, 128", "self.fc(x)"), PLAIN).layers[0].ours


@pytest.mark.parametrize(
    "before",
    ["def conv2d(x):\n    return x\n", "tiles = 4\n", "class conv_kernel:\n    pass\n"],
)
def test_where_the_task_has_a_name_of_our_layers_it_has_no_such_file(before: str) -> None:
    given = task(CONV, before=before)
    assert understand(given, PLAIN).layers == (Layer("self.conv", "Conv2d", True),) and kept(given) == ""
    # Where none of the layers is ours, nothing of theirs is written.
    assert calls(kept(task("self.conv = nn.Conv2d(16, 32, 3, groups=2)", before=before))) == ["self.conv(x)"]


@pytest.mark.parametrize(
    ("imports", "layers", "before"),
    [
        ("from torch.nn import Conv2d", "self.conv = Conv2d(16, 32, 3)", ""),
        ("", CONV + "\nself.table = Conv2d().table", "class Conv2d:\n    table = 3\n"),
    ],
)
def test_our_class_has_another_name_where_the_task_has_one_of_its_own(
    imports: str, layers: str, before: str, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    given = task(layers, imports=imports, before=before)
    source = kept(given)
    assert "class TritonConv2d(nn.Conv2d):" in source and "class Conv2d(nn.Conv2d)" not in source
    for number, text in enumerate((source, completed(shortened(source, given.source), given.source))):
        new = imported(text, tmp_path, f"kept_named_{number}").ModelNew()
        assert type(new.conv).__name__ == "TritonConv2d" and getattr(new, "table", 3) == 3
