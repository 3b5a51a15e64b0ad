"""Checks of values, `if torch.any(var < 0): raise …` and `assert x.isfinite().all()`, depend on what is in the tensors, which nobody
has while a module is traced. Modules are optimised for inputs that pass them: what a check asks is answered so that it passes,
and the check is no part of the kernel."""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any
from unittest import mock

import torch

_ONE = threading.RLock()
MACHINERY = (__file__, "torch/overrides.py", "torch/_export/", "torch/export/", "torch/fx/", "torch/utils/", "torch/_tensor.py")
"""Files between a question and whoever asks it."""
QUESTIONS = (
    *((owner, "__bool__") for owner in (torch.Tensor, torch.SymBool)),
    *((owner, name) for owner in (torch, torch.Tensor) for name in ("equal", "allclose")),
)
CHECKS = ("_check", "_assert", "_assert_async", "_check_value", "_check_with")
"""Functions of torch that raise an error where what they are given first is false."""


@contextmanager
def checks_pass() -> Iterator[None]:
    """While it is on, a tensor, or a comparison of a number out of one, that is asked for its truth by a check of this thread answers what lets the
    check pass; any other question goes on. (torch.export takes modes that would see the question away.)"""
    thread = threading.get_ident()

    def answering(question: Callable[..., Any]) -> Callable[..., bool]:
        def asked(*given: Any, **options: Any) -> bool:
            answer = _passing(sys._getframe(1)) if threading.get_ident() == thread else None
            return bool(question(*given, **options)) if answer is None else answer

        return asked

    with _ONE, ExitStack() as patched:
        for owner, name in QUESTIONS:
            patched.enter_context(mock.patch.object(owner, name, answering(getattr(owner, name))))
        yield


def _passing(frame: FrameType | None) -> bool | None:
    """What the question in this frame's line must be answered with; None where it is no check's."""
    while frame is not None and any(part in frame.f_code.co_filename for part in MACHINERY):
        frame = frame.f_back
    if frame is None:
        return None
    answers = _answers("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    places = list(frame.f_code.co_positions())[: frame.f_lasti // 2 + 1]
    here = places[-1]
    # Some versions of Python say the place of the whole statement: what was asked is what the instruction before has made.
    before = next((place for place in reversed(places) if place != here), here)
    return answers.get(here, answers.get(before))


@lru_cache(maxsize=64)
def _answers(text: str) -> dict[Any, bool]:
    """What must be true or false in a file for nothing to be raised, by its place."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[Any, bool] = {}
    for node in ast.walk(tree):
        raising = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise)
        if raising or isinstance(node, ast.Assert):
            found.update(_parts(node.test, isinstance(node, ast.Assert)))  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHECKS and node.args:
            found.update(_parts(node.args[0], True))
    return found


def _parts(test: ast.expr, wanted: bool) -> Iterator[tuple[Any, bool]]:
    """The places of what is asked for its truth in a test, each with the answer that is wanted."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not wanted)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _parts(part, wanted)
    else:
        yield (test.lineno, test.end_lineno, test.col_offset, test.end_col_offset), wanted
