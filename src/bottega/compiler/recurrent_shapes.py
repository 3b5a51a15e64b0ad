"""Recurrent layers on fake tensors: torch walks every step of a sequence to learn shapes that the first step has already.

Of two layers over 192 steps one pass took four seconds, and a trace passes three times. The call stays whole in the graph, so that nobody sees
what was computed within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from torch._decomp import decompositions

WALKS = ("one_layer_rnn", "one_layer_lstm")
"""Torch's own names for them. Where a version has none, its steps are walked, which is only slower."""


@contextmanager
def one_step_each() -> Iterator[None]:
    """For a fake tensor mode alone: the values are not right."""
    with ExitStack() as stack:
        for name in WALKS:
            if walk := getattr(decompositions, name, None):
                stack.enter_context(mock.patch.object(decompositions, name, _first_step(walk)))
        yield


def _first_step(walk: Callable[..., Any]) -> Callable[..., Any]:
    def walked(steps: Any, *given: Any, **named: Any) -> Any:
        out, last = walk(steps[:1], *given, **named)
        return out.new_empty((steps.shape[0], *out.shape[1:])), last

    return walked
