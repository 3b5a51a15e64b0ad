"""Which modules of a model one kernel serves: those that differ from the one it was made for in weights alone, or in the number of their layer where
that changes no answer.

Layers of transformers keep `layer_idx`, and say it to the cache of keys and values when they are given one. Some compute with it (GPT-2 may divide by
it). A kernel runs only on calls like those it was judged on, so such a call decides: it is made with each layer's number.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from bottega.core.arguments import Arguments
from bottega.episodes.delivery.answer_distance import tensors_of
from bottega.episodes.delivery.drop_in.attributes import attributes_of
from bottega.episodes.delivery.drop_in.state import difference

LAYER_INDEX = "layer_idx"
NOISE = 4.0
"""Times what two calls of one module differ by, so may those with other numbers. Where they do not differ, nothing may."""


def alike(modules: Sequence[nn.Module], given: Arguments) -> tuple[list[nn.Module], tuple[str, ...]]:
    """The first module and those like it, and the attribute that may differ. `given`: a call of the first."""
    first, *others = modules
    built = attributes_of(first)
    ignore = (LAYER_INDEX,) if others and any(LAYER_INDEX in part.__dict__ for part in first.modules()) else ()
    same = [other for other in others if not difference(other, built, ignore)]
    if ignore and same:
        same = [other for other, idle in zip(same, _idle_numbers(first, same, given)) if idle]
    return [first, *same], ignore if same else ()


def _idle_numbers(first: nn.Module, others: Sequence[nn.Module], given: Arguments) -> list[bool]:
    """Of each other module: whether the first one answers the same with that one's numbers."""
    numbered = [part for part in first.modules() if LAYER_INDEX in part.__dict__]
    own = [part.layer_idx for part in numbered]
    found = []
    try:
        expected = _answers(first, given)
        own_noise = _distance(_answers(first, given), expected)  # sums of experts, say, whose order is left to chance
        for other in others:
            _number(numbered, [part.__dict__[LAYER_INDEX] for part in other.modules() if LAYER_INDEX in part.__dict__])
            got = _answers(first, given)
            found.append(math.isfinite(own_noise) and _distance(got, expected) <= NOISE * own_noise)
    except Exception:  # the user's code: nobody can say
        return [False] * len(others)
    finally:
        _number(numbered, own)
    return found


def _distance(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest difference of any element; infinite where the answers are of another form."""
    if [each.shape for each in got] != [each.shape for each in expected]:
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(got, expected) if not torch.equal(a, b)]
    return max((float(torch.nan_to_num(a - b, nan=math.inf).abs().max()) for a, b in pairs), default=0.0)


def _number(parts: Sequence[nn.Module], numbers: Sequence[Any]) -> None:
    for part, number in zip(parts, numbers, strict=True):
        part.layer_idx = number


def _answers(module: nn.Module, given: Arguments) -> list[torch.Tensor]:
    positional, keywords = copy.deepcopy(given)
    devices = {tensor.device.index for tensor in module.parameters() if tensor.is_cuda}
    with torch.no_grad(), torch.random.fork_rng(devices=sorted(devices)):
        torch.manual_seed(0)
        return [tensor.clone() for tensor in tensors_of(module(*positional, **keywords))]
