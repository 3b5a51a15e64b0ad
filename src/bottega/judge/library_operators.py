"""The operators of torch's that a call uses on a CPU: samples tell library from own code, but not one operator of the library from another.

Runs in the worker's process. Of a baseline it is a measurement, of a candidate evidence: native code can call an operator unseen.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CALLS = 3
_NO_WORK = (
    *("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "detach", "resize_"),
    *("_unsafe_view", "_reshape_alias"),  # views that torch does not declare as such
)

Row = list[Any]
"""Name, microseconds a call, uses a call: as rows of a GPU's profile."""


def operator_rows(call: Callable[[], object]) -> list[Row]:
    """What a call uses, the quickest of a few; without views and without memory that nobody has written."""
    seen: list[OperatorRecorder] = []
    for _ in range(CALLS):
        with OperatorRecorder() as recorder:
            call()
        seen.append(recorder)
    names = dict.fromkeys(name for each in seen for name in each.nanoseconds)
    return [[name, min(each.nanoseconds[name] for each in seen) / 1e3, max(each.uses[name] for each in seen)] for name in names]


class OperatorRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.nanoseconds: Counter[str] = Counter()
        self.uses: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        begun = time.perf_counter_ns()
        result = function(*arguments, **(keywords or {}))
        took = time.perf_counter_ns() - begun
        name = function._schema.name.removeprefix("aten::")
        if name not in _NO_WORK and not _is_view(function) and _has_elements(result):
            self.nanoseconds[name] += took
            self.uses[name] += 1
        return result


def _is_view(function: Any) -> bool:
    returned = [value.alias_info for value in function._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def _has_elements(result: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.numel() for leaf in tree_leaves(result))
