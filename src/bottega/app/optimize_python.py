"""`bottega.optimize` and what it gives back: the command's search for a module that is at hand, in a script or a notebook.

What is found is a run directory as the command's is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from bottega.app.open_model import call_of_part, called
from bottega.app.optimize_model import OptimizedModel, optimize_model
from bottega.app.optimize_run import FinishedRun, check, loaded, search, settings_for
from bottega.app.terminal import say
from bottega.core.arguments import read_arguments
from bottega.core.errors import UsageError
from bottega.episodes.delivery.check import ClaimCheck
from bottega.episodes.delivery.result import Result
from bottega.episodes.request import next_folder
from bottega.tasks.capture import task_of_call

MOST_PARTS = 24
"""A model with more modules in it is taken part by part."""
MOST_LAYERS = 2
"""And so is one with more modules of one class that have modules of their own: as one kernel they would be written out one after the other."""


@dataclass(frozen=True)
class Optimized(FinishedRun):
    """A finished search for one module. Where nothing was found, the original answers."""

    result: Result = field(repr=False)
    replaced: str = ""
    """Where in the model the module stands, if it is a part of one."""
    model: nn.Module | None = field(default=None, repr=False)

    @property
    def found(self) -> bool:
        return self.result.outcome == "faster"

    def check(self) -> ClaimCheck:
        """Judge the finished result again, from its files alone."""
        return check(self.folder, self.result)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return (self.model or self.module)(*arguments, **options)


def optimize(
    model: nn.Module, example_inputs: Any = (), *, submodule: str = "", out: str | Path | None = None, **settings: Any
) -> Optimized | OptimizedModel:
    """Make a module faster, or one part of a model: `fast = bottega.optimize(model, x)`.

    `example_inputs`: a tensor, a list of arguments, a dictionary of them by name, or a pair of both. `submodule`: a part by its name in the model,
    such as `layers.0.mlp`; it is put into the model where it is faster. Of a model with many parts those that are worth it are searched, and the
    whole is measured end to end (`whole=False` takes it as one module). `method="generate"`: that method is called in place of the model, with
    `example_inputs` as its arguments. `settings` are those of `bottega optimize` (`bottega settings optimize`):
    `device` is the model's own, `quiet=True` shows no progress.
    """
    device = next((tensor.device.type for tensor in (*model.parameters(), *model.buffers())), "cpu")
    chosen = settings_for(device, settings)
    if chosen.dtype is not None:
        raise UsageError("dtype: a module that is at hand has its own data type; cast it and its inputs first")
    given = read_arguments(
        [example_inputs] if isinstance(example_inputs, torch.Tensor) else example_inputs, called(model, chosen.method)
    )
    if not any(isinstance(each, torch.Tensor) for each in tree_leaves(tuple(given))):
        raise UsageError(f"example_inputs: no tensor is in them; give what {type(model).__name__} is called with")
    if not submodule and (chosen.whole if chosen.whole is not None else chosen.method or is_whole(model)):
        return optimize_model(model, given, Path(out) if out is not None else None, chosen)
    original, arguments, options = (model, *given)
    if submodule:
        arguments, options = call_of_part(model, submodule, given, chosen.method)
        original = model.get_submodule(submodule)
    subject = task_of_call(original, arguments, options)
    folder = Path(out) if out is not None else next_folder(subject.task.name, Path(), chosen.resume)
    finished = search(subject, folder, chosen)
    module = original
    if finished.result.outcome == "faster" and not finished.result.refused:
        module = loaded(finished.folder, finished.result)(original)
        if submodule:
            model.set_submodule(submodule, module)
    elif not chosen.quiet:
        say(f"{finished.result.missed} The original answers; {finished.folder / 'report.md'} has more.")
    return Optimized(module, finished.folder, finished.result, submodule, model if submodule else None)


def is_whole(model: nn.Module) -> bool:
    parts = list(model.modules())
    layers = Counter(type(part) for part in parts if any(part.children()) and not type(part).__module__.startswith("torch.nn."))
    return len(parts) > MOST_PARTS or max(layers.values(), default=0) > MOST_LAYERS
