"""Bytes that a draft moves through a GPU's memory, and its launches, beside those of torch.compile's own plan. Nothing runs and no GPU is needed: it
shows where torch.compile fuses what the compiler does not.

    python benchmarks/traffic.py benchmarks/fourth_modules/level3/*.py
    python benchmarks/traffic.py benchmarks/fourth_modules/level3/9_Small_UNet_GroupNorm.py --each
    python benchmarks/traffic.py layers --only llama

A kernel counts each buffer that it reads or writes once, a vendor library's call its operands and results: what a library moves beyond that, and how
fast a kernel is, is not in it. Of a task's first drafts the one that moves least counts, but for those that keep joined weights of their own. Calls
that only look at a tensor count too, on both sides.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from compiled_plan import Launch, compiled_plan
from figure import launch, show
from real_layers import installed_layers

from bottega.compiler.bodies import bodies, made, operands, read
from bottega.compiler.draft_compiler import passes_of_choices, variants
from bottega.compiler.expression import Gather, Load, walk
from bottega.compiler.kernel import FunctionCall, Kernel
from bottega.compiler.model_class import with_model_class
from bottega.compiler.plan import KernelPlan
from bottega.compiler.step_compiler import LoweredTask, lower_task
from bottega.compiler.view import View
from bottega.core.errors import BottegaError
from bottega.core.task import Task

MB = 1e6


def main(
    tasks: Annotated[list[str], typer.Argument(help="Task files, or `layers` of installed packages.")],
    only: Annotated[str, typer.Option(help="A part of their names.")] = "",
    drafts: Annotated[int, typer.Option(min=1, help="Of each task, the most promising ones.")] = 3,
    each: Annotated[bool, typer.Option("--each", help="Every launch of both plans, too.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for task in _tasks(tasks):
        if only in task.label:
            rows.append(_row(task, drafts, each))
            print(f"{rows[-1][0]}: {', '.join(rows[-1][1:])}", flush=True)
    told = sorted((row for row in rows if row[-1]), key=lambda row: -float(row[-1]))
    columns = ("task", "draft", "launches", "MB", "compile: launches", "MB", "ours / compile")
    ratios = [math.log(float(row[-1])) for row in told]
    mean = [f"geometric mean {math.exp(sum(ratios) / len(ratios)):.2f} of {len(ratios)}"] if ratios else []
    show("memory traffic by the plans", columns, told, mean)


def _tasks(names: list[str]) -> Iterator[Task]:
    for name in names:
        if name == "layers":
            yield from (layer.task() for layer in installed_layers())
        else:
            yield Task(Path(name).read_text(encoding="utf-8"), Path(name).stem).validate()


def _row(task: Task, drafts: int, each: bool) -> list[str]:
    begun = time.monotonic()
    try:
        label, ours = min(plans(task, drafts), key=lambda one: _moved(one[1]))
        theirs = compiled_plan(lambda: module_of(task))
    except Exception as error:
        why = str(error) if isinstance(error, BottegaError) else f"{type(error).__name__}: {error}"
        return [task.label, why.splitlines()[0][:120], "", "", "", "", ""]
    for name, launches in (("ours", ours), ("compile", theirs)) if each else ():
        for one in launches:
            print(f"  {name:8}{one.bytes / MB:10.2f}  {one.what}")
    print(f"  {time.monotonic() - begun:.0f} s", end="  ")
    ratio = f"{_moved(ours) / max(1, _moved(theirs)):.2f}"
    return [
        task.label,
        label,
        str(len(ours)),
        f"{_moved(ours) / MB:.1f}",
        str(len(theirs)),
        f"{_moved(theirs) / MB:.1f}",
        ratio,
    ]


def _moved(launches: list[Launch]) -> int:
    return sum(one.bytes for one in launches)


def plans(task: Task, count: int) -> Iterator[tuple[str, list[Launch]]]:
    """The most promising drafts in Triton, by what they choose."""
    lowered: LoweredTask = lower_task(with_model_class(task))
    for choices in itertools.islice((one for one in variants(lowered) if not one.library and not one.merged), count):
        passes = frozenset(pass_.name for pass_ in passes_of_choices("triton", choices))
        plan = lowered.plan(passes, choices.tuning)
        yield choices.label, [Launch(_bytes(kernel, plan), _what(kernel)) for kernel in plan.kernels]


def _bytes(kernel: Kernel, plan: KernelPlan) -> int:
    touched = {name: 0 for name in read(kernel) if name in plan.buffers}
    looks = [(view.buffer, _elements(view)) for view in operands(kernel)]
    for node in (node for body in bodies(kernel) for node in walk(body)):
        if isinstance(node, Load):
            looks.append((node.view.buffer, _elements(node.view)))
        elif isinstance(node, Gather):
            looks.append((node.view.buffer, min(math.prod(node.view.shape), _elements(node.view) * node.size)))
    for name, count in looks:
        if name in touched:
            touched[name] = max(touched[name], min(count, plan.buffers[name].size))
    for name in made(kernel):
        touched[name] = plan.buffers[name].size
    return sum(count * getattr(torch, plan.buffers[name].dtype).itemsize for name, count in touched.items())


def _elements(view: View) -> int:
    return math.prod(size for size, stride in zip(view.shape, view.strides) if stride)


def _what(kernel: Kernel) -> str:
    if isinstance(kernel, FunctionCall):
        return kernel.text or kernel.function
    return f"{type(kernel).__name__} {', '.join(kernel.origin)}"


def module_of(task: Task) -> tuple[Any, tuple[Any, ...]]:
    names: dict[str, Any] = {"__name__": "task"}
    exec(compile(task.source, task.label, "exec"), names)
    return names["Model"](*names["get_init_inputs"]()), tuple(names["get_inputs"]())


if __name__ == "__main__":
    launch(main)
