"""Writes 250 tasks in KernelBench's contract and layout, like the public benchmark in kind and size, and copies of none of it.

Level 1: 100 single operators, a third of them on 4 to 8 GB with an output as large; level 2: 100 convolutions and products with two
to five operators behind them; level 3: 50 networks. A whole run over them shows what a card of a given memory can judge:

    PYTHONPATH=src python3 benchmarks/large_tasks.py large_tasks --check
    bottega bench large_tasks --backbone embedded --device cuda quick=true

`--check` runs each of them on fake tensors at its true shapes (no memory is taken; a minute or two) and says how many bytes inputs
(I), outputs (O) and the reference's own workspace (W: alive at its peak beyond inputs, parameters and outputs) take.
`--scale 0.001` shrinks shapes, for a dry run on a CPU.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from figure import launch, show
from task_texts import level1, level2, level3
from task_texts.text import TaskText
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bottega.core.errors import UsageError

LEVELS = {1: level1.rows, 2: level2.rows, 3: level3.rows}
GB = 1e9


@dataclass(frozen=True)
class Written:
    level: int
    number: int
    """From 1 in its level, as file names have it."""
    text: TaskText

    @property
    def path(self) -> str:
        return f"level{self.level}/{self.number}_{self.text.name}.py"


@dataclass(frozen=True)
class Bytes:
    """What a reference takes, by fake tensors."""

    inputs: int
    outputs: int
    parameters: int
    workspace: int
    """Alive at the peak of one call beyond the three others; a library's own scratch is not in it."""


def main(
    out: Annotated[Path, typer.Argument(help="The folder to write; its level1/, level2/ and level3/ are replaced.")],
    levels: Annotated[str, typer.Option(help="Levels by comma.")] = "1,2,3",
    only: Annotated[str, typer.Option(help="Only tasks whose file name holds this text.")] = "",
    scale: Annotated[float, typer.Option(min=1e-9, max=1.0, help="Shrink inputs to about this share of their elements.")] = 1.0,
    check: Annotated[
        bool, typer.Option("--check", help="Run each on fake tensors at its shapes, and say what it takes.")
    ] = False,
) -> None:
    chosen = [each for each in tasks(_levels(levels)) if only in each.path]
    if not chosen:
        raise UsageError(f"--only {only!r} with --levels {levels} leaves no task; look at the names in {out}")
    for level in LEVELS:
        shutil.rmtree(out / f"level{level}", ignore_errors=True)
    for each in chosen:
        path = out / each.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each.text.source(each.number, scale), encoding="utf-8")
    if not check:
        print(f"{len(chosen)} tasks in {out}; next: bottega bench {out} --backbone embedded --device cuda quick=true")
        return
    begun = time.monotonic()
    found: dict[str, Bytes] = {}
    broken: dict[str, str] = {}
    for each in chosen:
        try:
            found[each.path] = measured(each.text.source(each.number, scale))
        except Exception as error:  # each kind of mistake in a task's text: the table names the task
            broken[each.path] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            print(f"{each.path}: {broken[each.path]}", file=sys.stderr)
    _told(chosen, found, time.monotonic() - begun)
    if broken:
        raise SystemExit(1)


def tasks(levels: tuple[int, ...] = (1, 2, 3)) -> Iterator[Written]:
    for level in levels:
        for number, text in enumerate(LEVELS[level](), 1):
            yield Written(level, number, text)


def measured(source: str) -> Bytes:
    """Run a task's own functions on fake tensors: shapes and lifetimes are true, and no memory is taken."""
    names: dict[str, Any] = {"__name__": "task"}
    exec(compile(source, "<task>", "exec"), names)
    with warnings.catch_warnings(), FakeTensorMode() as fake, torch.no_grad():
        warnings.simplefilter("ignore")
        model = names["Model"](*names["get_init_inputs"]())
        inputs = names["get_inputs"]()
        kept = _size([*inputs, *model.parameters(), *model.buffers()])
        with _Alive() as alive:
            outputs = model(*inputs)
        given = _size(inputs)
        made = _size([leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)])
        peak = alive.peak
        del fake
    return Bytes(given, made, kept - given, max(0, peak - made))


class _Alive(TorchDispatchMode):
    """Adds up the storages that operators made and that are still alive, after each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}
        self._given: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in self._held:
                self._given.add(leaf.untyped_storage()._cdata)
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in self._given and storage._cdata not in self._held:
                    self._held[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._held = {key: pair for key, pair in self._held.items() if not pair[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._held.values()))
        return out


def _size(tensors: list[Any]) -> int:
    storages = {
        each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in tensors if isinstance(each, torch.Tensor)
    }
    return sum(storages.values())


def _told(chosen: list[Written], found: dict[str, Bytes], seconds: float) -> None:
    rows = []
    for level in sorted({each.level for each in chosen}):
        asked = [each for each in chosen if each.level == level]
        ran = [found[each.path] for each in asked if each.path in found]
        both = sorted(each.inputs + each.outputs for each in ran) or [0]
        totals = [sum(getattr(each, part) for each in ran) / GB for part in ("inputs", "outputs", "workspace", "parameters")]
        rows.append(
            [str(level), f"{len(ran)} of {len(asked)}", *(f"{total:.1f}" for total in totals),
             f"{both[len(both) // 2] / GB:.2f}", f"{both[-1] / GB:.2f}", str(sum(each.inputs >= 4e9 for each in ran))]
        )  # fmt: skip
    columns = ("level", "ran", "I", "O", "W", "parameters", "I + O p50", "I + O most", "inputs of 4 GB or more")
    largest = sorted(found, key=lambda path: -(found[path].inputs + found[path].outputs))[:1]
    remarks = [f"GB, summed over tasks; {seconds:.0f} s on fake tensors", *(f"largest: {path}" for path in largest)]
    show("tasks at their shapes", columns, rows, remarks)
    gc.collect()


def _levels(text: str) -> tuple[int, ...]:
    try:
        levels = tuple(int(part) for part in text.split(","))
    except ValueError:
        levels = (0,)
    if not set(levels) <= set(LEVELS):
        raise UsageError(f"--levels {text}: give some of 1, 2 and 3, by comma")
    return levels


if __name__ == "__main__":
    launch(main)
