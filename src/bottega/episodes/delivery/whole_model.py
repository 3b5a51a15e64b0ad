"""A whole model with faster parts in it: which parts help end to end, how much all of them do, and how far its answers move.

Timed in this process, turn about, on the user's own inputs, each round with the device's lock: the parts were proved by the judge, and here it is
only about what they bring together.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from bottega.core.arguments import Arguments
from bottega.core.verdict import Speedup, interval_text
from bottega.judge.baselines import COMPILE_MODES
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.statistics import decided, interval

ROUNDS, MOST_ROUNDS = 8, 60
FLOOR = 0.005
"""Relative noise that is always allowed for."""
LARGEST_IN_FP64 = 2 << 30
"""Bytes of parameters up to which the model is also run in fp64."""

Call = Callable[[nn.Module], Any]


@dataclass(frozen=True)
class Part:
    """One kind of module that has a faster form."""

    label: str
    places: tuple[str, ...]
    load: Callable[[nn.Module], nn.Module]
    folder: str = ""


@dataclass(frozen=True)
class PartResult:
    part: Part
    speedup: Speedup | None
    """Of the whole model, by this part beside those before it."""
    kept: bool
    reason: str = ""


@dataclass(frozen=True)
class WholeModel:
    module: nn.Module
    parts: tuple[PartResult, ...]
    speedups: dict[str, Speedup]
    """Of the model with its faster parts, by baseline; against a compiled one the same compiler is around ours where that is faster."""
    times_ms: dict[str, float]
    error: float
    """Relative distance of its answers to the original's."""
    own_error: float | None
    """The original's own distance to fp64."""
    fp64_error: float | None
    """Ours to fp64."""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """Peak on the device; empty on a CPU."""

    @property
    def kept(self) -> list[PartResult]:
        return [part for part in self.parts if part.kept]


def assembled(
    model: nn.Module, parts: Sequence[Part], inputs: Arguments, baselines: Sequence[str], say: Callable[[str], None]
) -> WholeModel:
    """The parts that help, one after the other, in a copy of the model that shares its parameters."""

    def call(called: nn.Module) -> Any:
        return called(*inputs.positional, **inputs.keywords)

    fast = shared_copy(model)
    results: list[PartResult] = []
    with torch.no_grad():
        for part in parts:
            before = {place: fast.get_submodule(place) for place in part.places}
            tried = shared_copy(fast)
            try:
                for place in part.places:
                    tried.set_submodule(place, part.load(tried.get_submodule(place)))
                speedup = compared({"before": fast, "with": tried}, call)["with"]["before"]
            except (ValueError, TypeError, RuntimeError) as failed:
                results.append(PartResult(part, None, False, f"{type(failed).__name__}: {failed}"))
                continue
            kept = speedup.low > 1
            say(f"{part.label} in {len(before)} places: {told(speedup)} end to end{'' if kept else '; it is left out'}")
            results.append(PartResult(part, speedup, kept, "" if kept else "does not help end to end"))
            fast = tried if kept else fast
        error, own, theirs = _errors(model, fast, inputs)
        models = {"eager": model, "optimized": fast}
        times: dict[str, list[float]] = {}
        speedups = {}
        if any(result.kept for result in results):
            compiled = [name for name in baselines if name in COMPILE_MODES]
            for name in compiled:
                say(f"compiling the model for the baseline {name}")
                models[name] = _compiled(model, COMPILE_MODES[name])
                models[f"optimized, {name}"] = _compiled(fast, COMPILE_MODES[name])
            found = compared(models, call, times)
            for name in ("eager", *compiled):
                ours = [found[each][name] for each in ("optimized", f"optimized, {name}") if each in found]
                speedups[name] = max(ours, key=lambda speedup: speedup.low)
        memory = {name: _peak(models[name], call) for name in ("eager", "optimized")} if _on_gpu(model) else {}
    milliseconds = {name: sorted(taken)[len(taken) // 2] * 1e3 for name, taken in times.items()}
    return WholeModel(fast, tuple(results), speedups, milliseconds, error, own, theirs, memory)


def compared(
    models: Mapping[str, nn.Module], call: Call, times: dict[str, list[float]] | None = None
) -> dict[str, dict[str, Speedup]]:
    """By model, its speedup against each of the others: calls turn about, until the intervals are narrow or patience ends."""
    times = {} if times is None else times
    times.update({name: [] for name in models})
    for model in models.values():  # warm: kernels are built, compilers compile
        call(model)
        call(model)
    first, *rest = models
    with closing(Lease(open_lease(_device(models[first])))) as lease:
        while len(times[first]) < MOST_ROUNDS:
            with lease.exclusive():
                for name in list(models) if len(times[first]) % 2 else list(models)[::-1]:
                    times[name].append(_seconds(models[name], call))
            if len(times[first]) >= ROUNDS and all(decided(interval(times[first], times[name], FLOOR)) for name in rest):
                break
    return {one: {other: interval(times[other], times[one], FLOOR) for other in models if other != one} for one in models}


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy with the same parameters and buffers: modules can be exchanged in it, and nothing is held twice."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def told(speedup: Speedup) -> str:
    return f"{speedup.point:.3f}× ({interval_text(speedup.low, speedup.high, 3)})"


def report_of(whole: WholeModel, title: str, searched: Sequence[str]) -> str:
    """How it came about, as Markdown."""
    lines = [f"# {title}, end to end", ""]
    if whole.speedups:
        lines += ["| against | speedup (99 % interval) | ms before | ms after |", "|---|---|---:|---:|"]
        for name, speedup in whole.speedups.items():
            after = min(whole.times_ms[each] for each in ("optimized", f"optimized, {name}") if each in whole.times_ms)
            lines.append(f"| {name} | {told(speedup)} | {whole.times_ms[name]:.3f} | {after:.3f} |")
    else:
        lines += ["No part that was found helps the whole model: it is handed over as it was."]
    fp64 = f"; to fp64 {whole.fp64_error:.2g}, the original's own {whole.own_error:.2g}" if whole.fp64_error is not None else ""
    lines += ["", f"Relative distance of the answers to the original's: {whole.error:.2g}{fp64}."]
    lines += [f"Peak memory: {name} {size / 1e9:.3f} GB." for name, size in whole.memory_bytes.items()]
    lines += ["", "| module | places | end to end | in the model |", "|---|---:|---|---|"]
    for result in whole.parts:
        speed = told(result.speedup) if result.speedup else ""
        lines.append(
            f"| {result.part.label} | {len(result.part.places)} | {speed} | {'yes' if result.kept else result.reason} |"
        )
    return "\n".join([*lines, "", "What was searched:", "", *(f"- {line}" for line in searched)]) + "\n"


def _seconds(model: nn.Module, call: Call) -> float:
    if _on_gpu(model):
        begun, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        call(model)
        end.record()
        end.synchronize()
        return float(begun.elapsed_time(end)) / 1e3
    begun_at = time.perf_counter()
    call(model)
    return time.perf_counter() - begun_at


def _compiled(model: nn.Module, mode: str) -> nn.Module:
    return torch.compile(shared_copy(model), mode=mode)  # type: ignore[return-value]


def _device(model: nn.Module) -> str:
    """Of its first tensor on a GPU, else the CPU."""
    return next((str(tensor.device) for tensor in (*model.parameters(), *model.buffers()) if tensor.is_cuda), "cpu")


def _on_gpu(model: nn.Module) -> bool:
    return _device(model) != "cpu"


def _peak(model: nn.Module, call: Call) -> int:
    torch.cuda.reset_peak_memory_stats()
    call(model)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _errors(model: nn.Module, fast: nn.Module, inputs: Arguments) -> tuple[float, float | None, float | None]:
    expected, got = (_tensors(each(*inputs.positional, **inputs.keywords)) for each in (model, fast))
    if sum(parameter.nbytes for parameter in model.parameters()) > LARGEST_IN_FP64:
        return _distance(got, expected), None, None
    positional, keywords = tree_map(_doubled, tuple(inputs))
    try:
        exact = _tensors(copy.deepcopy(model).double()(*positional, **keywords))
    except (RuntimeError, TypeError):
        return _distance(got, expected), None, None
    return _distance(got, expected), _distance(expected, exact), _distance(got, exact)


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _tensors(value: Any) -> list[torch.Tensor]:
    """The floats of a result. What else it holds, such as a cache, is not compared."""
    if isinstance(value, torch.Tensor):
        return [value.detach().double()] if value.is_floating_point() else []
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Mapping):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    held = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [tensor for each in held for tensor in _tensors(each)]


def _distance(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float:
    """Root mean square of the difference, relative to what is wanted; the largest over all outputs."""
    far = [float((a - b).square().mean().sqrt() / b.square().mean().sqrt().clamp_min(1e-30)) for a, b in zip(got, wanted)]
    return max(far, default=0.0)
