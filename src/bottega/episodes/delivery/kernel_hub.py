"""A finished result in the layout of the Hugging Face Kernel Hub: sources for its builder, a variant that the `kernels` package loads as it is, and
the verdict on the card.

A layer there has no constructor and no state, and its `forward` is bound to the user's module: it makes the delivered module around that one.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.core.files import json_text, write
from bottega.core.verdict import interval_text
from bottega.episodes.delivery.result import OPTIMIZED, VERDICT, Result, read_result
from bottega.languages import language_named
from bottega.tasks.files import read_source

HUB_PACKAGES = frozenset(("einops", "nvidia-cutlass-dsl"))
"""What a kernel of the Hub may depend on beside torch and what torch brings along."""
VERSION = 1
LAYERS = '''"""The layer for `kernels`: its forward is bound to a module of the user's, whose parameters the kernel uses."""

import copy

import torch

from . import optimized


def _followed(twin, module):
    """The twin as the module is now, with the forward of its class: `kernels` has put the one below in its place."""
    twin.__dict__.update(module.__dict__)
    for name in ("forward", "_bottega"):
        twin.__dict__.pop(name, None)
    return twin


class {layer}(torch.nn.Module):
    can_torch_compile = False
    has_backward = False

    def forward({signature}):
        fast = self.__dict__.get("_bottega")
        if fast is None:
            fast = self.__dict__["_bottega"] = optimized.{load}(_followed(copy.copy(self), self))
        _followed(fast.original, self)
        return fast({passed})


__all__ = ["{layer}"]
'''
BUILD = """[general]
name = "{name}"
version = {version}
license = "Apache-2.0"
backends = ["{backend}"]

[general.hub]
repo-id = "{repo}"

[torch-noarch]
"""
CARD = """---
library_name: kernels
license: apache-2.0
---

# {name}

A faster `{layer}`, judged by Bottega. It is right to the error of the original at its own precision against fp64, and its own kernels do the work.

| against | speedup | 99 % interval |
|---|---:|---|
{rows}

Measured on {machine}. `verdict.json` beside this file holds the whole verdict.

The kernel runs on calls like those that it was judged on, without gradients; on others the original runs.

```python
from pathlib import Path

from kernels import LocalLayerRepository, Mode, kernelize, register_kernel_mapping, replace_kernel_forward_from_hub

replace_kernel_forward_from_hub({layer}, "{layer}")  # your class
layer = LocalLayerRepository(Path("{folder}"), layer_name="{layer}")  # this folder
register_kernel_mapping({{"{layer}": {{"{backend}": layer}}}})
model = kernelize(model, mode=Mode.INFERENCE)
```
"""
TEST = '''"""The layer is there, and has no state of its own."""

import torch

import {name}


def test_the_layer_is_a_module_without_a_constructor():
    assert {name}.layers.{layer}.__init__ is torch.nn.Module.__init__
'''


def write_kernel_hub(folder: Path, out: Path, repo: str = "") -> Path:
    """Raises `UsageError` where the folder holds no kernel that was found faster, or the place is taken."""
    result = read_result(folder)
    if result.outcome != "faster":
        raise UsageError(f"{folder}: the search found nothing that is surely faster, so there is nothing to export")
    if result.refused:
        raise UsageError(f"{folder}: its kernel cannot use the original's parameters: {result.refused}")
    if result.module.function is not None:
        raise UsageError(
            f"{folder}: a layer of the Kernel Hub stands for a class, and {result.module.function} is a function; share {OPTIMIZED}"
        )
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out}: is not empty; name another folder")
    source = read_source(folder / OPTIMIZED)
    layer = _layer_name(source, result)
    name = re.sub(r"\W+", "_", f"{layer}_{result.task_id[:8]}").lower()
    backend = "cpu" if result.device == "cpu" else "cuda"
    signature, passed = _signature(source)
    files = {
        "__init__.py": f'"""A faster {layer}."""\n\nfrom . import layers, optimized\n\n__all__ = ["layers", "optimized"]\n',
        "layers.py": LAYERS.format(layer=layer, load=result.load, signature=signature, passed=passed),
        "optimized.py": source,
    }
    needs = [language_named(result.language).needs] if backend == "cuda" and language_named(result.language).needs else []
    metadata = {"id": f"_{name}_{backend}_{result.task_id[:8]}", "name": name.replace("_", "-"), "version": VERSION, "license": "Apache-2.0",
                "python-depends": [each for each in needs if each in HUB_PACKAGES], "backend": {"type": backend}}  # fmt: skip
    for text_name, text in files.items():
        _write(out / "torch-ext" / name / text_name, text)
        _write(out / "build" / f"torch-{backend}" / text_name, text)
    _write(out / "build" / f"torch-{backend}" / "metadata.json", json_text(metadata))
    repo = repo or f"YOUR-NAME/{name.replace('_', '-')}"
    _write(out / "build.toml", BUILD.format(name=name.replace("_", "-"), version=VERSION, backend=backend, repo=repo))
    _write(out / "CARD.md", _card(name, layer, result, out.resolve().name))
    _write(out / "tests" / f"test_{name}.py", TEST.format(name=name, layer=layer))
    _write(out / VERDICT, read_source(folder / VERDICT))
    return out


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text)


def _card(name: str, layer: str, result: Result, folder: str) -> str:
    rows = "\n".join(
        f"| {against} | {claim.point:.2f}× | {interval_text(claim.low, claim.high)} |"
        for against, claim in result.claim.items()
    )
    facts = result.fingerprint
    machine = ", ".join(str(facts[key]) for key in ("gpu", "cpu", "torch") if facts.get(key)) or result.device
    backend = "cpu" if result.device == "cpu" else "cuda"
    return CARD.format(name=name, layer=layer, rows=rows, machine=machine, backend=backend, folder=folder)


def _layer_name(source: str, result: Result) -> str:
    found = re.search(r"'class': '(\w+)'", source)
    return found.group(1) if found else result.module.class_name or "Layer"


def _signature(source: str) -> tuple[str, str]:
    """Of the kernel's forward, as text, and how its arguments are passed on."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]
    forward = next(
        (node for each in classes for node in each.body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None
    )
    if forward is None:
        raise UsageError(f"{OPTIMIZED}: its ModelNew has no forward of its own, and a layer of the Kernel Hub needs one")
    arguments = forward.args
    passed = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
    passed += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    passed += [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]
    passed += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ast.unparse(arguments), ", ".join(passed)
