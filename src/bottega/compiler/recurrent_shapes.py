"""Recurrent layers on fake tensors: torch walks every step of a sequence to learn shapes that the first step has already.

Of two layers over 192 steps one pass took four seconds, and a trace passes three times. The call stays whole in the graph, so that nobody sees
what was computed within it. States have the shape that they came with: torch 2.11's own LSTM gives them a dimension more on fake tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from torch import nn
from torch._decomp import decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._pytree import tree_map

WALKS = ("one_layer_rnn", "one_layer_lstm")
"""Torch's own names for them. Where a version has none, its steps are walked, which is only slower."""
LAYERS = (nn.GRU, nn.RNN)
"""Outside of an export these are composites in C++, which walk before anyone else is asked: so they are dispatched from Python."""
_PATCHED = threading.RLock()
"""Held meanwhile: patches of two threads would not be taken back in order."""


@contextmanager
def one_step_each(layers: Iterable[type[nn.Module]] = LAYERS) -> Iterator[None]:
    """For a fake tensor mode alone: the values are not right. Other threads, which may call real layers, notice nothing. Without layers also
    where real tensors are about, which torch gives to its walks only as it exports."""
    with _PATCHED, ExitStack() as stack:
        for name in WALKS:
            if walk := getattr(decompositions, name, None):
                stack.enter_context(mock.patch.object(decompositions, name, _first_step(walk)))
        for layer in layers:
            stack.enter_context(mock.patch.object(layer, "forward", _from_python(layer.forward)))
        yield


def _from_python(forward: Callable[..., Any]) -> Callable[..., Any]:
    owner = threading.get_ident()

    @wraps(forward)
    def called(*given: Any, **named: Any) -> Any:
        if threading.get_ident() != owner:
            return forward(*given, **named)
        with enable_python_dispatcher():
            return forward(*given, **named)

    return called


def _first_step(walk: Callable[..., Any]) -> Callable[..., Any]:
    owner = threading.get_ident()

    def walked(steps: Any, before: Any, *given: Any, **named: Any) -> Any:
        if threading.get_ident() != owner:
            return walk(steps, before, *given, **named)
        out, last = walk(steps[:1], before, *given, **named)
        last = tree_map(lambda after, state: after.reshape(state.shape), last, before)
        return out.new_empty((steps.shape[0], *out.shape[1:])), last

    return walked
