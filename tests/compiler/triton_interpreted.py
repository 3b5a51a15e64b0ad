"""Runs what the Triton writer writes, by Triton's interpreter, against the module in fp64. Started as a process of its own:

    TRITON_INTERPRET=1 python triton_interpreted.py LIMITS NAME ...

The interpreter is chosen when Triton is imported. It has no libdevice, so numpy stands in for those functions; and it cuts
what it makes a bfloat16 or an e4m3 of, takes whole numbers for the bits of one, and multiplies the bits of such numbers, so that torch rounds
them and their products are done in fp32.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from half_tasks import HALVES
from lookup_tasks import LOOKUPS
from recurrent_tasks import RECURRENT
from small_tasks import SMALL
from torch import nn
from triton_tasks import WIDE

from bottega.compiler.backends.triton import attention, even_rows, layout, matmul, scan, width
from bottega.compiler.backends.triton import map as maps
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.compiler.step_compiler import StepCompiler
from bottega.core.task import Task

TASKS = {
    given.name: given
    for given in (*SMALL, *WIDE, *LOOKUPS, *HALVES, *(Task(*one) for one in zip(RECURRENT.values(), RECURRENT)))
}
LIBDEVICE = {
    "tanh": np.tanh, "expm1": np.expm1, "log1p": np.log1p, "pow": np.power, "rint": np.rint, "trunc": np.trunc, "tan": np.tan,
    "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "fmod": np.fmod, "atan2": np.arctan2,
}  # fmt: skip


def stand_in() -> None:
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def stood(function: Any) -> Any:
        def call(*values: Any) -> Any:
            first = values[0].handle
            found = function(*(np.asarray(value.handle.data) for value in values)).astype(first.data.dtype)
            return tl.core.tensor(TensorHandle(found, first.dtype), values[0].type)

        return call

    for name, function in LIBDEVICE.items():
        setattr(libdevice, name, stood(function))
    multiplied = InterpreterBuilder.create_dot

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        wide = [self.create_fp_ext(side, tl.float32) if side.dtype.scalar == tl.bfloat16 else side for side in (a, b)]
        return multiplied(self, *wide, *rest)

    cast = InterpreterBuilder.cast_impl

    def rounded(self: Any, source: Any, target: Any) -> Any:
        if source.dtype.scalar == tl.bfloat16 or target.scalar != tl.bfloat16:
            return cast(self, source, target)
        bits = torch.from_numpy(np.ascontiguousarray(source.data)).bfloat16().view(torch.int16).numpy().view(np.uint16)
        return TensorHandle(bits, tl.bfloat16)

    converted = InterpreterBuilder.create_fp_to_fp

    def eight_bits(self: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source.dtype.scalar != tl.float32 or target.scalar != tl.float8e4nv:
            return converted(self, source, target, rounding)
        values = torch.from_numpy(np.ascontiguousarray(source.data))
        return TensorHandle(values.to(torch.float8_e4m3fn).view(torch.uint8).numpy(), tl.float8e4nv)

    InterpreterBuilder.create_dot, InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp = dot, rounded, eight_bits


def tighten() -> None:
    """Small rows count as long ones, so that loops and splits run on small tasks too."""
    layout.LONGEST_ROW, layout.TALLEST_TILE, layout.PIECE, scan.LONGEST, matmul.SHARE = 4, 64, 1, 4, 2
    matmul.MANY_STRIPS, matmul.STRIP, attention.MANY_QUERIES = 0, 2, 1


def loaded(source: str, folder: str, number: int) -> Any:
    path = Path(folder) / f"candidate_{number}.py"
    path.write_text(source)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepared(kind: Callable[[], nn.Module]) -> nn.Module:
    """Built with the same buffers every time, which a constructor may draw, and with the same parameters."""
    torch.manual_seed(1)
    model = kind()
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data = (torch.randn(parameter.shape) * 0.3 + 0.5 * (parameter.ndim == 1)).to(parameter.dtype)
    return model


def distance(got: Any, wanted: Any) -> float:
    """The largest relative error in the root mean square, over all outputs."""
    mine, theirs = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(wanted)
    worst = 0.0 if len(mine) == len(theirs) else float("inf")
    for one, other in zip(mine, theirs):
        if one.shape != other.shape or one.isnan().any() != other.isnan().any():
            return float("inf")
        apart = (one.double() - other.double()).pow(2).mean().sqrt()
        worst = max(worst, float(apart / (other.double().pow(2).mean().sqrt() + 1e-6)))
    return worst


def check(given: Task, folder: str) -> list[tuple[str, float | str]]:
    """Each step of the build with its error."""
    namespace: dict[str, Any] = {"__name__": "task"}
    exec(compile(given.source, given.name, "exec"), namespace)
    torch.manual_seed(0)
    inputs = namespace["get_inputs"]()
    wide = [value.double() if value.is_floating_point() else value for value in inputs]
    found: list[tuple[str, float | str]] = []
    with torch.no_grad():
        wanted = prepared(namespace["Model"]).double()(*wide)
        own = 1.0
        if given in HALVES:  # of a single number the module's own error may be next to nothing by luck
            least = torch.finfo(next(value.dtype for value in (*inputs, wanted) if value.is_floating_point())).eps / 2
            own = max(distance(prepared(namespace["Model"])(*inputs), wanted), least)
        steps = [*StepCompiler(every_product=True).build(given, "triton").steps]
        if given in HALVES:
            steps += DraftCompiler(3).build(given, "triton").steps
        for number, step in enumerate(steps):
            source = step.candidate.source
            if "CUDAGraph" in source:
                continue
            try:
                model = prepared(loaded(source, folder, number).ModelNew)
                found.append((step.technique, distance(model(*inputs), wanted) / own))
            except Exception as error:
                found.append((step.technique, f"{type(error).__name__}: {error}\n{source}"))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    stand_in()
    maps.MANY_TURNED, even_rows.SHORTEST = 1 << 12, 2
    if sys.argv[1].startswith("tight"):
        tighten()
    if sys.argv[1].endswith("large"):
        width.BEYOND = width.INT32  # every tensor counts as one of more than 2^31 elements
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or TASKS:
            result[name] = check(TASKS[name], folder)
    print(json.dumps(result))
