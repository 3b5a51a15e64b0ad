"""What an operator does, found by running its text: shapes and costs on torch's meta device, typical contents on a small table.

The text is the only definition: the catalogue says nothing of shapes, data types or costs, and no tensor of a task's size is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.operator import FIELD, OPERANDS, Form
from bottega.tasks.synth.value import DRAWS, ELEMENTS, Shape, Table

if TYPE_CHECKING:
    import torch

PROBES = {"any": (-4.0, 4.0), "nonnegative": (0.0, 4.0), "positive": (0.05, 4.0), "unit": (0.0, 1.0)}


def measured(
    form: Form, p: dict[str, Any], operands: Sequence[tuple[Shape, str]]
) -> tuple[Shape, str, list[OperatorCost]] | None:
    """Shape and data type of the result, and what it costs; None where the form does not take these operands."""
    import torch

    from bottega.tasks.synth.cost_mode import counting

    try:
        with torch.device("meta"), torch.no_grad():
            given = [torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in operands]
            scope = _scope(form, p, next((one.dtype for one in given if one.is_floating_point()), torch.float32))
            with counting() as costs:
                result = _run(form, p, scope, given)
    except (RuntimeError, ValueError, IndexError):
        return None
    return tuple(result.shape), str(result.dtype).removeprefix("torch."), costs


def pointwise_costs(form: Form, p: dict[str, Any], dtypes: tuple[str, ...], numel: int) -> list[OperatorCost]:
    """Of an operator that treats every element alone: the costs of a table, which are remembered, tell those of any shape."""
    times = numel / (DRAWS * ELEMENTS)
    small = _table_costs(form, tuple(_on_table(p).items()), dtypes)
    return [OperatorCost(one.bytes * times, one.operations * times, one.kind) for one in small]


@lru_cache(maxsize=4096)
def _table_costs(form: Form, p: tuple[tuple[str, Any], ...], dtypes: tuple[str, ...]) -> tuple[OperatorCost, ...]:
    found = measured(form, dict(p), [((DRAWS, ELEMENTS), dtype) for dtype in dtypes])
    return tuple(found[2]) if found else ()


def _on_table(p: dict[str, Any]) -> dict[str, Any]:
    """Channels lie along a table's second axis."""
    by_channel = [name for name in p if name.endswith(("_shape", "channels"))]
    return p | {name: (ELEMENTS,) if name.endswith("_shape") else ELEMENTS for name in by_channel}


def source_costs(source: str) -> list[OperatorCost]:
    """What one call of a whole task costs."""
    import torch

    from bottega.tasks.synth.cost_mode import counting

    space: dict[str, Any] = {}
    with torch.device("meta"), torch.no_grad():
        exec(compile(source, "task", "exec"), space)
        model, given = space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()
        with counting() as costs:
            model(*given)
    return costs


def contents(form: Form, p: dict[str, Any], tables: Sequence[tuple[Table, str]], seed: int) -> Table:
    """What an operator that treats every element alone makes of typical contents."""
    import torch

    p = _on_table(p)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)  # of the CPU alone: `torch.manual_seed` is slow
        given = [torch.from_numpy(table > 0 if dtype == "bool" else np.ascontiguousarray(table)) for table, dtype in tables]
        made: Table = _run(form, p, _scope(form, p, torch.float64), given).numpy()
    return made


def sign_of(table: Table) -> str:
    low, high = float(table.min()), float(table.max())
    if not low >= 0:
        return "any"
    return "unit" if high <= 1 else "positive" if low > 0.01 else "nonnegative"


def probe(sign: str) -> Table:
    """All that contents of this sign may be."""
    return np.linspace(*PROBES[sign], ELEMENTS)[None, :]


def _scope(form: Form, p: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    import torch
    from torch import nn

    scope: dict[str, Any] = {"torch": torch, "nn": nn, "F": nn.functional, "math": math, "self": SimpleNamespace()}
    for name, template in form.attributes:
        setattr(scope["self"], name, eval(_written(template.removeprefix("buffer:"), p), scope).to(dtype))
    return scope


def _run(form: Form, p: dict[str, Any], scope: dict[str, Any], operands: Sequence[torch.Tensor]) -> torch.Tensor:
    *before, last = form.lines
    scope |= zip(OPERANDS, operands)
    exec(_written("\n".join([*before, f"result = {last}"]), p), scope)
    result: torch.Tensor = scope["result"]
    return result


def _written(text: str, p: dict[str, Any]) -> str:
    """A template with its parameters as numbers."""

    def field(found: str) -> str:
        if found[0] in "@=":
            return ("self." if found[0] == "@" else "own_") + found[1:]
        if found.startswith(", "):
            key, _, default = found[2:].partition("=")
            return f", {key}={p.get(key, default)}"
        return found if found in OPERANDS else str(p[found])

    return FIELD.sub(lambda match: field(match[1]), text)
