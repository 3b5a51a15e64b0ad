"""In the place of CUDA graphs where no GPU is: a recording is the calls of torch's operators, made again with the same tensors. As in a graph,
nothing of Python's runs in a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bottega.episodes.delivery.drop_in import recorded as recording


class Operators(TorchDispatchMode):
    """Notes operators and their results."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operator: Any, types: Any, row: Any = (), names: Any = None) -> Any:
        names = names or {}
        found = operator(*row, **names)
        self.made.append((operator, row, names, found))
        return found


class PythonGraphs:
    """In the place of CUDA graphs."""

    kind = "cpu"

    def is_busy(self) -> bool:
        return False

    def place(self) -> Any:
        return None

    def after(self, place: Any) -> None:
        pass

    def replayed(self, place: Any) -> None:
        pass

    def finish(self) -> None:
        pass

    def is_current(self, device: torch.device) -> bool:
        return device.index is None

    def record(self, work: Callable[[], Any]) -> Any:
        work()
        operators = Operators()
        with operators:
            results = work()

        def replay() -> None:
            for operator, row, names, found in operators.made:
                again = operator(*row, **names)
                for mine, other in zip(tree_leaves(found), tree_leaves(again)):
                    if isinstance(mine, torch.Tensor) and mine.data_ptr() != other.data_ptr():
                        mine.copy_(other)

        return replay, results


def leaves(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    recording.rebuilt(value, lambda each: (found.append(each), each)[1])
    return found
