"""How far a model's answers lie from exact ones, relative to their size: of the model as it is, and of one with faster parts in it.

Of a text that is generated the scores of each token are compared, as long as the tokens before it are the same; in fp32 all tokens must be.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map

from bottega.core.arguments import Arguments
from bottega.judge.tolerance import tolerance

LARGEST_EXACT = 8 << 30
"""Bytes of parameters of the exact copy."""
GENERATED = "sequences"
"""Of what transformers' `generate` returns: the tokens, with those that were given. Its floats are the scores of each new one."""
Run = Callable[[nn.Module, Arguments], Any]


class Answers(NamedTuple):
    floats: list[torch.Tensor]
    tokens: list[torch.Tensor]
    """Of a text, or what else is returned where nothing else is: whole numbers."""


class AnswerDistance:
    """Exact is fp64, or fp32 for a model in halves that is too large; nothing where neither fits or runs."""

    def __init__(self, model: nn.Module, inputs: Arguments, run: Run, precision: str = "fp32") -> None:
        self._inputs, self._run = inputs, run
        self._expected = self._of(model, inputs)
        self._limits = [tolerance(str(each.dtype).removeprefix("torch."), precision) for each in self._expected.floats]
        self.exact_in, self._exact = "", self._expected
        elements = sum(parameter.numel() for parameter in model.parameters())
        halves = any(parameter.dtype in (torch.float16, torch.bfloat16) for parameter in model.parameters())
        self._same_tokens = precision == "fp32" and not halves
        for dtype in (torch.float64, *([torch.float32] if halves else [])):
            if elements * dtype.itemsize <= LARGEST_EXACT:
                with contextlib.suppress(RuntimeError, TypeError):  # no memory for it, or code that names a data type
                    wide = tree_map(lambda value, to=dtype: _cast(value, to), tuple(inputs))
                    self._exact = self._of(copy.deepcopy(model).to(dtype), Arguments(*wide))
                    self.exact_in = {torch.float64: "fp64", torch.float32: "fp32"}[dtype]
                    break
        self.own = _distance(self._expected, self._exact) if self.exact_in else None

    def of(self, fast: nn.Module) -> tuple[float, float | None]:
        """To the original's answers, and to exact ones."""
        return self._distances(self._of(fast, self._inputs))

    def _distances(self, got: Answers) -> tuple[float, float | None]:
        return _distance(got, self._expected), _distance(got, self._exact) if self.exact_in else None

    def wrong(self, fast: nn.Module) -> str:
        """Why a model is none to hand over: held to what the judge holds kernels to, over the whole."""
        got = self._of(fast, self._inputs)
        first = _first_other(got.tokens, self._expected.tokens)
        if self._same_tokens and first is not None:
            return f"its tokens are not the original's from number {first + 1} on"
        error, exact = self._distances(got)
        limit = max((max(each.overall, each.slack * (self.own or 0.0)) for each in self._limits), default=math.inf)
        if not math.isfinite(error) or (exact is not None and exact > limit):
            return f"its answers are off by {error if exact is None else exact:.2g}, the original's own by {self.own or 0:.2g}"
        return ""

    def _of(self, model: nn.Module, inputs: Arguments) -> Answers:
        devices = {tensor.device.index for tensor in model.parameters() if tensor.is_cuda}
        with torch.random.fork_rng(devices=sorted(devices)):
            torch.manual_seed(0)  # dropout is the same for all
            result = self._run(model, inputs)
        floats = tensors_of(result)
        if floats and not hasattr(result, GENERATED):
            return Answers(floats, [])
        return Answers(floats, [each for each in tensors_of(result, whole=True) if each.dim()])


def tensors_of(value: Any, whole: bool = False) -> list[torch.Tensor]:
    """The floats of a result, or its `whole` numbers. What else it holds, such as a cache, is not compared."""
    if isinstance(value, torch.Tensor):
        return [value.detach()] if value.is_floating_point() != whole else []
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Mapping):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    held = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [tensor for each in held for tensor in tensors_of(each, whole)]


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _first_other(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> int | None:
    """The first place in which tokens differ."""
    for ours, theirs in zip(got, wanted):
        if ours.shape[:-1] != theirs.shape[:-1]:
            return 0
        common = min(ours.shape[-1], theirs.shape[-1])
        other = (ours[..., :common] != theirs[..., :common]).nonzero()[:, -1]
        if len(other) or ours.shape != theirs.shape:
            return int(other.min()) if len(other) else common
    return None if len(got) == len(wanted) else 0


def _comparable(got: Answers, wanted: Answers) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """All floats; of two texts that part, the scores up to there."""
    first = _first_other(got.tokens, wanted.tokens)
    if first is None or not wanted.floats:
        return got.floats, wanted.floats
    given = wanted.tokens[0].shape[-1] - len(wanted.floats)
    scores = max(0, first - given) + 1
    return got.floats[:scores], wanted.floats[:scores]


def _distance(answers: Answers, exact: Answers) -> float:
    """Root mean square of the difference, relative to what is wanted; the largest over all outputs. What is infinite must be so in both."""
    got, wanted = _comparable(answers, exact)
    if [each.shape for each in got] != [each.shape for each in wanted]:
        return math.inf
    far = [0.0]
    for ours, theirs in zip(got, wanted):
        a, b = ours.double(), theirs.double()
        same = (a == b) | (a.isnan() & b.isnan())
        size = b.masked_fill(~b.isfinite(), 0.0).square().mean().sqrt().clamp_min(1e-30)
        found = float((a - b).masked_fill(same, 0.0).square().mean().sqrt() / size) if a.numel() else 0.0
        far.append(math.inf if math.isnan(found) else found)
    return max(far)
